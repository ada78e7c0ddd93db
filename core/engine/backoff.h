// SPDX-License-Identifier: Apache-2.0
// How long to look again before sleeping. Waking a sleeper on another core costs 16 to 28
// microseconds, so a short spin pays, but only while every rank has a core of its own; otherwise a
// thread that spins keeps the one it waits for from running.
#pragma once

#include <sched.h>

#include <atomic>
#include <limits>

#include "base/clock.h"
#include "base/platform.h"

namespace hvd::engine {

struct BackoffPolicy {
  Duration spin{std::chrono::microseconds(5)};
  Duration yield{std::chrono::microseconds(50)};
  int pauses_before_yield = 0;  // used instead of `spin` when ranks outnumber cores

  static BackoffPolicy choose(int ranks_here, int cores, int hosts, int64_t spin_us) {
    BackoffPolicy policy;
    if (hosts > 1) {
      // Each look asks the system, and an answer from another host takes its time: a thread that
      // has bytes to move for us, be it the system's own, may have the core meanwhile.
      policy.spin = Duration::zero();
      policy.yield = std::chrono::microseconds(200);
    } else if (ranks_here > cores) {
      policy.spin = Duration::zero();
      policy.pauses_before_yield = 20;
      policy.yield = std::chrono::microseconds(200);
    }
    if (spin_us >= 0) policy.spin = std::chrono::microseconds(spin_us);
    return policy;
  }
};

// Whether others want the cores of this rank, as its yields have shown; shared by its threads. On a
// wanted core a yield gives away a whole time slice, while a thread that sleeps is woken as soon as
// there is something to do.
class Contention {
 public:
  bool lasts(Time time) const {
    return time.time_since_epoch().count() < until_.load(std::memory_order_relaxed);
  }
  void yielded(Time from, Time to) {
    if (to - from > kWholeSlice)
      until_.store((to + kRemembered).time_since_epoch().count(), std::memory_order_relaxed);
  }

 private:
  static constexpr Duration kWholeSlice = std::chrono::milliseconds(1);
  static constexpr Duration kRemembered = std::chrono::milliseconds(50);
  std::atomic<int64_t> until_{std::numeric_limits<int64_t>::min()};
};

class Backoff {
 public:
  Backoff(const BackoffPolicy& policy, Contention& contention)
      : policy_(policy), contention_(contention) {}

  void reset() { rounds_ = 0; }
  // Waits a moment; false once it is time to sleep. A spinning caller reads the clock every 32nd
  // round only.
  bool pause() {
    if (rounds_ == 0) start_ = last_ = now();
    if (++rounds_ % 32 == 0) last_ = now();
    if (rounds_ <= policy_.pauses_before_yield || waited() < policy_.spin) {
      cpu_pause();
      return true;
    }
    if (waited() >= policy_.spin + policy_.yield || contention_.lasts(last_)) return false;
    const Time before = now();
    sched_yield();
    last_ = now();
    contention_.yielded(before, last_);
    return true;
  }
  // The time since the last reset, to the precision of pause().
  Duration waited() const { return rounds_ == 0 ? Duration::zero() : last_ - start_; }

 private:
  const BackoffPolicy& policy_;
  Contention& contention_;
  int rounds_ = 0;
  Time start_{};
  Time last_{};
};

}  // namespace hvd::engine
