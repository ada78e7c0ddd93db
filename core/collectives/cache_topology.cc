// SPDX-License-Identifier: Apache-2.0
#include "collectives/cache_topology.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/clock.h"

namespace hvd::collectives {

namespace {

// There are two lots of lines, of which the faster one counts, because a rank may be interrupted.
constexpr size_t kLines = Slots::kMarks / 2;

// Reads the lines of a lot one after the other: where each is depends on what the one before
// contains, which is always 0.
uint32_t read_lines(const Slots& slots, int local, size_t lot) {
  uint32_t found = 0;
  for (size_t i = 0; i < kLines; ++i)
    found = slots.mark(local, lot * kLines + i + found % 2).load(std::memory_order_relaxed);
  return found;
}

// How much longer the lines of a lot take to read the first time than the second.
int64_t time_for_lot(const Slots& slots, int local, size_t lot) {
  const Time before = now();
  uint32_t found = read_lines(slots, local, lot);
  const Time between = now();
  found |= read_lines(slots, local, lot);
  const Time after = now();
  return ((between - before) - (after - between)).count() + static_cast<int64_t>(found);
}

}  // namespace

int64_t CacheTopology::time_to_read(const Slots& slots, int local) {
  return std::min(time_for_lot(slots, local, 0), time_for_lot(slots, local, 1));
}

CacheTopology::CacheTopology(const Slots& slots, NonTemporalStores stores, Measure measure)
    : slots_(slots),
      measure_(stores == NonTemporalStores::kMeasured && slots.count() > 1 ? measure : nullptr),
      long_(static_cast<size_t>(slots.count()),
            stores == NonTemporalStores::kAlways ? kLooksForFar : 0),
      far_count_(stores == NonTemporalStores::kAlways ? slots.count() - 1 : 0),
      next_(slots.me()) {}

void CacheTopology::show(uint32_t round) {
  if (measure_ == nullptr || ++rounds_ < kRoundsToLook) return;
  rounds_ = 0;
  shown_ = true;
  shown_round_ = round;
  for (size_t i = 0; i < Slots::kMarks; ++i)
    slots_.mark(slots_.me(), i).store(0, std::memory_order_relaxed);
}

void CacheTopology::look(uint32_t round) {
  if (!shown_ || round != shown_round_) return;
  shown_ = false;
  do {
    next_ = (next_ + 1) % slots_.count();
  } while (next_ == slots_.me());
  int& looks = long_[static_cast<size_t>(next_)];
  const bool before = far(next_);
  looks = measure_(slots_, next_) > kFarNs ? std::min(looks + 1, kLooksForFar) : 0;
  far_count_ += static_cast<int>(far(next_)) - static_cast<int>(before);
}

}  // namespace hvd::collectives
