// SPDX-License-Identifier: Apache-2.0
#include "negotiation/arrivals.h"

#include <algorithm>

namespace hvd::negotiation {

Arrivals::Arrivals(size_t members)
    : members_(members), rows_(std::clamp<size_t>(kMostEntries / members, 16, kUses)) {
  after_ = std::make_unique<std::atomic<uint32_t>[]>(rows_.size() * members);
  for (size_t i = 0; i < rows_.size(); ++i) rows_[i].after = &after_[i * members];
}

uint32_t Arrivals::microseconds(Duration duration) {
  const int64_t value = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, kNotYet - 1));
}

void Arrivals::begin(uint64_t use, Time since) {
  Row& row = this->row(use);
  row.use.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  row.since.store(since.time_since_epoch().count(), std::memory_order_relaxed);
  for (size_t m = 0; m < members_; ++m) row.after[m].store(kNotYet, std::memory_order_relaxed);
  row.use.store(use, std::memory_order_release);
}

Arrivals::Use Arrivals::find(uint64_t use) const {
  const Row& row = rows_[use % rows_.size()];
  Use found;
  if (use == 0 || row.use.load(std::memory_order_acquire) != use) return found;
  found.since = Time(Duration(row.since.load(std::memory_order_relaxed)));
  found.after.resize(members_);
  for (size_t m = 0; m < members_; ++m)
    found.after[m] = row.after[m].load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (row.use.load(std::memory_order_relaxed) == use) found.number = use;
  return found;
}

}  // namespace hvd::negotiation
