// SPDX-License-Identifier: Apache-2.0
// Somebody who knows that a rank has ended before the others have met it: the launcher of an
// elastic job. Without one the others wait until their time is up.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace hvd::transport {

class LostMember {
 public:
  LostMember() = default;
  // `ask` never blocks, and is not OK once a rank has ended.
  explicit LostMember(std::function<Status()> ask) : ask_(std::move(ask)) {}

  Status check() const { return ask_ ? ask_() : Status(); }
  // Until when a wait may last that `check` follows.
  Time limit(Time wake) const { return ask_ ? std::min(wake, now() + kLook) : wake; }

 private:
  static constexpr Duration kLook = std::chrono::milliseconds(20);

  std::function<Status()> ask_;
};

}  // namespace hvd::transport
