// SPDX-License-Identifier: Apache-2.0
// When each member announced its part of the last operations of a process set. The coordinator
// writes; any thread reads, and never makes the coordinator wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"

namespace hvd::negotiation {

class Arrivals {
 public:
  static constexpr uint32_t kNotYet = UINT32_MAX;
  // Operations that are remembered, fewer in very large sets.
  static constexpr size_t kUses = 4096;
  static constexpr size_t kMostEntries = size_t{1} << 17;

  explicit Arrivals(size_t members);

  void begin(uint64_t use, Time since);
  // `after`: from the first member's announcement on.
  void arrive(uint64_t use, size_t member, Duration after) {
    row(use).after[member].store(microseconds(after), std::memory_order_relaxed);
  }

  struct Use {
    uint64_t number = 0;
    Time since{};
    std::vector<uint32_t> after;  // per member, microseconds from `since`; kNotYet
  };
  // The use of that number if it is still known, else one whose number is 0.
  Use find(uint64_t use) const;

  static uint32_t microseconds(Duration duration);

 private:
  struct Row {
    std::atomic<uint64_t> use{0};  // 0 while the row is being written
    std::atomic<int64_t> since{0};
    std::atomic<uint32_t>* after = nullptr;
  };
  Row& row(uint64_t use) { return rows_[use % rows_.size()]; }

  size_t members_;
  std::vector<Row> rows_;
  std::unique_ptr<std::atomic<uint32_t>[]> after_;
};

}  // namespace hvd::negotiation
