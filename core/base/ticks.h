// SPDX-License-Identifier: Apache-2.0
// A counter of the processor, which costs a third of what reading the clock costs. For durations
// that are added up in places that the clock would slow down; never for decisions, because a
// processor from before 2008 counts at the speed at which it happens to run.
#pragma once

#include <cstdint>

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace hvd {

inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t value = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<uint64_t>(now().time_since_epoch().count());
#endif
}

// How long a tick takes, from how many there have been since this object was made.
class TickRate {
 public:
  TickRate() : first_(ticks()), since_(now()) {}
  double nanoseconds_per_tick() const {
    const uint64_t passed = ticks() - first_;
    return passed == 0
               ? 1.0
               : static_cast<double>((now() - since_).count()) / static_cast<double>(passed);
  }

 private:
  uint64_t first_;
  Time since_;
};

// Adds the ticks from its making to its end to a sum.
class TickScope {
 public:
  explicit TickScope(uint64_t& sum) : sum_(sum), begun_(ticks()) {}
  ~TickScope() {
    const uint64_t end = ticks();
    if (end > begun_) sum_ += end - begun_;  // cores of an old machine may disagree
  }
  TickScope(const TickScope&) = delete;
  TickScope& operator=(const TickScope&) = delete;

 private:
  uint64_t& sum_;
  uint64_t begun_;
};

}  // namespace hvd
