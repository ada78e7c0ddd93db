// SPDX-License-Identifier: Apache-2.0
// How the clocks of hosts differ. CLOCK_MONOTONIC is one clock for all processes of a host, and
// another one on each host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"

namespace hvd::observe {

// `offset` added to a time of this host's clock is the time of rank 0's clock, in nanoseconds. The
// true value is at most `error` away.
struct ClockOffset {
  bool known = false;
  int64_t offset = 0;
  int64_t error = 0;
};

// The values that an offset may have, from moments of which is known which came first.
struct OffsetRange {
  int64_t low = INT64_MIN;
  int64_t high = INT64_MAX;

  // A moment of rank 0's clock came before a moment of this host's.
  void before(int64_t of_rank_0, int64_t here) { low = std::max(low, of_rank_0 - here); }
  // A moment of rank 0's clock came after a moment of this host's.
  void after(int64_t of_rank_0, int64_t here) { high = std::min(high, of_rank_0 - here); }
  void cut(const OffsetRange& other) {
    low = std::max(low, other.low);
    high = std::min(high, other.high);
  }
  ClockOffset middle() const;
};

// Measures by a few small allreduces; collective over all ranks, which take part until `limit`. The
// same for all ranks of a host. Jobs of one host exchange nothing. An error where not all ranks
// took part.
Result<ClockOffset> measure_clock(const std::shared_ptr<engine::Engine>& engine, Duration limit);

}  // namespace hvd::observe
