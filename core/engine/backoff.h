// SPDX-License-Identifier: Apache-2.0
// How long to look again before sleeping. Waking a sleeper on another core costs 16 to 28 microseconds, so a short spin
// pays, but only while every rank has a core of its own; otherwise whoever spins keeps the one he waits for from running.
#pragma once

#include <sched.h>

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
      // Each look asks the system, and an answer from another host takes its time: whoever has bytes to move for us, be it the
      // system itself, may have the core meanwhile.
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

class Backoff {
 public:
  explicit Backoff(const BackoffPolicy& policy) : policy_(policy) {}

  void reset() { rounds_ = 0; }
  // Waits a moment; false once it is time to sleep. Reads the clock every 32nd round only.
  bool pause() {
    if (rounds_ == 0) waited_ = Duration::zero();
    if (rounds_++ % 32 == 0) {
      const Time time = now();
      if (rounds_ == 1) start_ = time;
      waited_ = time - start_;
    }
    const bool spinning = rounds_ <= policy_.pauses_before_yield || waited_ < policy_.spin;
    if (spinning) {
      cpu_pause();
      return true;
    }
    if (waited_ >= policy_.spin + policy_.yield) return false;
    sched_yield();
    return true;
  }
  // Since the last reset, to the precision of pause().
  Duration waited() const { return rounds_ == 0 ? Duration::zero() : waited_; }

 private:
  const BackoffPolicy& policy_;
  int rounds_ = 0;
  Time start_{};
  Duration waited_{0};
};

}  // namespace hvd::engine
