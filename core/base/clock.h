// SPDX-License-Identifier: Apache-2.0
// Time as every layer means it: nanoseconds of CLOCK_MONOTONIC. Changes of the wall clock have no
// effect.
#pragma once

#include <chrono>
#include <string>

namespace hvd {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline Time now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

inline constexpr Duration kForever = Duration::max();
inline constexpr Time kNever = Time::max();

// The time `wait` from `start`; negative or kForever means never.
inline Time deadline_after(Time start, Duration wait) {
  if (wait < Duration::zero() || wait >= kNever - start) return kNever;
  return start + wait;
}

// "0.5", "30" or "1200": seconds for a message, without more digits than mean something.
std::string seconds_text(Duration duration);

}  // namespace hvd
