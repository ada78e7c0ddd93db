// SPDX-License-Identifier: Apache-2.0
// What the ends of operations and groups add to the histograms and counters. The places that fill
// the flight recorder report here, whether or not the recorder is on. Used by the driver only.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "base/histograms.h"
#include "base/metrics.h"
#include "base/ticks.h"
#include "engine/flight_recorder.h"

namespace hvd::engine {

class Operation;

// Adds up stretches of time that come in the order of their ends. Time that several of them share
// counts once, as far as the last gap before the newest stretch.
class CoveredTime {
 public:
  // The nanoseconds that this stretch adds.
  uint64_t add(int64_t begin, int64_t end);

 private:
  int64_t before_ = 0;  // the end of what was covered before the last gap
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

class Observations {
 public:
  Observations(Metrics& metrics, Histograms& histograms)
      : metrics_(metrics), histograms_(histograms) {}

  // An operation with inputs of so many bytes ended well, at that tick.
  void operation(const Operation& operation, uint64_t bytes, uint64_t ended) noexcept;
  // A group ended now. `direct`: the data stayed on devices.
  void group(const GroupRecord& group, const backend::Effort& spent, bool direct) noexcept;

 private:
  void waiting(const Operation& operation, int64_t agreed) noexcept;
  // Reads the clock now and then, because reading it for each operation would cost too much.
  void look(uint64_t at) noexcept;
  int64_t time(uint64_t at) const {
    return time_ +
           static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(at - ticks_)) * per_tick_);
  }
  uint64_t duration(uint64_t count) const {
    return static_cast<uint64_t>(static_cast<double>(count) * per_tick_);
  }

  Metrics& metrics_;
  Histograms& histograms_;
  const TickRate rate_;
  double per_tick_ = 1.0;
  uint64_t ticks_ = 0;  // when the clock was read last
  int64_t time_ = 0;    // nanoseconds of the clock at that moment
  CoveredTime missing_ranks_;
  CoveredTime late_;
};

}  // namespace hvd::engine
