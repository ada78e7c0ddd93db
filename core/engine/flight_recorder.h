// SPDX-License-Identifier: Apache-2.0
// The last operations of this rank, in rings in memory. The driver writes, without locks or
// memory to allocate; any thread reads, at any moment, and never makes the driver wait. Times and
// durations are kept in ticks, because reading the clock would cost too much (base/ticks.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ticks.h"
#include "engine/flight_layout.h"
#include "engine/flight_memory.h"
#include "engine/flight_ring.h"

namespace hvd::engine {

class FlightRecorder {
 public:
  // `file`: see FlightMemory. Readers of the file learn that this rank uses it.
  FlightRecorder(const std::string& file, int rank, int size);
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  const Status& problem() const { return memory_.problem(); }

  // For the driver.
  // Gives the name a label, unless the mark is a label that will last.
  void label(uint32_t& mark, int32_t set, std::string_view name) noexcept {
    if (mark == 0 || mark + kFlightLabels - kFlightOperations <= labels_.newest())
      mark = new_label(set, name);
  }
  void prepare() const { operations_.prepare(); }
  uint64_t add(const GroupRecord& group) noexcept { return groups_.put(group); }
  void add(const OperationRecord& operation) noexcept {
    if (operations_.put(operation) >= alarm_.load(std::memory_order_relaxed)) ring();
  }
  void add_clock() noexcept;
  void add(const WaitRecord& wait) noexcept { waits_.put(wait); }
  void add(const StallRecord& stall) noexcept { stalls_.put(stall); }
  void end(FlightState state) noexcept;

  // For callers, one at a time.
  void count_submission() noexcept {
    std::atomic<uint64_t>& count = memory_.header().submitted;
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // For any thread.
  struct Entry {
    uint64_t number = 0;
    OperationRecord operation;
    GroupRecord group;  // empty if the operation had none
    int32_t set = 0;
    std::string name;
  };
  // The operations from number `after` + 1 on that are still known, oldest first.
  std::vector<Entry> since(uint64_t after) const;
  uint64_t newest() const { return operations_.newest(); }
  const TickRate& rate() const { return rate_; }

  // For the thread of a timeline.
  // Sleeps until the operation with that number has ended, the deadline, or ring().
  void wait(uint64_t number, Time deadline) noexcept;
  void ring() noexcept;

 private:
  uint32_t new_label(int32_t set, std::string_view name) noexcept;

  TickRate rate_;
  FlightMemory memory_;
  Ring<OperationRecord, kFlightOperations> operations_;
  Ring<GroupRecord, kFlightOperations> groups_;
  Ring<LabelRecord, kFlightLabels> labels_;
  Ring<ClockRecord, kFlightNewest> clocks_;
  Ring<WaitRecord, kFlightNewest> waits_;
  Ring<StallRecord, kFlightNewest> stalls_;
  std::atomic<uint64_t> alarm_{UINT64_MAX};  // an operation with this number or a later one rings
  std::atomic<uint32_t> rung_{0};
};

// The beginning and the end of a name say more than its middle, which is left out where the field
// is too short. The field's rest is NUL.
void put_name(std::string_view name, std::span<char> field);

}  // namespace hvd::engine
