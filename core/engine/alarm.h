// SPDX-License-Identifier: Apache-2.0
// How long the engine's thread may sleep. The driver sets the alarm; the thread reads the alarm
// without the progress role.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace hvd::engine {

class Alarm {
 public:
  void set(Time next_tick) {
    at_.store(next_tick.time_since_epoch().count(), std::memory_order_relaxed);
  }
  // A tick is due although nothing may be in flight.
  void owe_answers(bool owes) { owes_answers_.store(owes, std::memory_order_relaxed); }

  // The time until the alarm as poll() takes it; -1: no limit.
  int milliseconds(bool in_flight) const {
    if (!in_flight && !owes_answers_.load(std::memory_order_relaxed)) return -1;
    const Time at{Duration(at_.load(std::memory_order_relaxed))};
    if (at == kNever) return 100;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at - now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 1, 1000));
  }

 private:
  std::atomic<Time::rep> at_{kNever.time_since_epoch().count()};
  std::atomic<bool> owes_answers_{false};
};

}  // namespace hvd::engine
