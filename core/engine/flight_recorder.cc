// SPDX-License-Identifier: Apache-2.0
#include "engine/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/futex.h"

namespace hvd::engine {

namespace {

constexpr std::string_view kCut = "...";

// Where each ring begins.
constexpr size_t kOperationsAt = sizeof(FlightHeader);
constexpr size_t kGroupsAt = kOperationsAt + Ring<OperationRecord, kFlightOperations>::kBytes;
constexpr size_t kLabelsAt = kGroupsAt + Ring<GroupRecord, kFlightOperations>::kBytes;
constexpr size_t kClocksAt = kLabelsAt + Ring<LabelRecord, kFlightLabels>::kBytes;
constexpr size_t kWaitsAt = kClocksAt + Ring<ClockRecord, kFlightNewest>::kBytes;
constexpr size_t kStallsAt = kWaitsAt + Ring<WaitRecord, kFlightNewest>::kBytes;
constexpr size_t kBytes = kStallsAt + Ring<StallRecord, kFlightNewest>::kBytes;
static_assert(kBytes < 2 << 20);

}  // namespace

void put_name(std::string_view name, std::span<char> field) {
  if (name.size() <= field.size()) {
    std::fill(std::copy(name.begin(), name.end(), field.begin()), field.end(), 0);
    return;
  }
  const size_t head = (field.size() - kCut.size()) / 2;
  const size_t tail = field.size() - kCut.size() - head;
  auto at = std::copy_n(name.begin(), head, field.begin());
  at = std::copy(kCut.begin(), kCut.end(), at);
  std::copy_n(name.end() - static_cast<ptrdiff_t>(tail), tail, at);
}

FlightRecorder::FlightRecorder(const std::string& file, int rank, int size)
    : memory_(file, kBytes),
      operations_(memory_.header().operations, memory_.data(), kOperationsAt),
      groups_(memory_.header().groups, memory_.data(), kGroupsAt),
      labels_(memory_.header().labels, memory_.data(), kLabelsAt),
      clocks_(memory_.header().clocks, memory_.data(), kClocksAt),
      waits_(memory_.header().waits, memory_.data(), kWaitsAt),
      stalls_(memory_.header().stalls, memory_.data(), kStallsAt) {
  FlightHeader& header = memory_.header();
  header.header_bytes = sizeof(FlightHeader);
  header.version = kFlightVersion;
  header.rank = rank;
  header.size = size;
  header.pid = getpid();
  header.bytes = kBytes;
  header.state.store(static_cast<int32_t>(FlightState::kWorks), std::memory_order_relaxed);
  add_clock();
  header.magic.store(std::bit_cast<uint64_t>(kFlightMagic), std::memory_order_release);
}

void FlightRecorder::add_clock() noexcept {
  clocks_.put({.ticks = ticks(), .time = now().time_since_epoch().count()});
}

void FlightRecorder::end(FlightState state) noexcept {
  // a context that is broken may be left in order later
  int32_t works = static_cast<int32_t>(FlightState::kWorks);
  memory_.header().state.compare_exchange_strong(works, static_cast<int32_t>(state));
  add_clock();
}

uint32_t FlightRecorder::new_label(int32_t set, std::string_view name) noexcept {
  LabelRecord record;
  record.set = set;
  put_name(name, record.name);
  return static_cast<uint32_t>(labels_.put(record));
}

std::vector<FlightRecorder::Entry> FlightRecorder::since(uint64_t after) const {
  const uint64_t newest = operations_.newest();
  std::vector<Entry> entries;
  uint64_t number =
      newest > kFlightOperations ? std::max(after, newest - kFlightOperations) : after;
  while (++number <= newest) {
    Entry entry;
    if (!operations_.get(number, &entry.operation)) continue;
    entry.number = number;
    if (entry.operation.group != 0) groups_.get(entry.operation.group, &entry.group);
    LabelRecord label;
    if (labels_.get(entry.operation.label, &label)) {
      entry.set = label.set;
      entry.name.assign(label.name.data(), strnlen(label.name.data(), label.name.size()));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

// The driver may miss an alarm that is set at the same moment; the next operation rings then.
void FlightRecorder::wait(uint64_t number, Time deadline) noexcept {
  const uint32_t seen = rung_.load();
  alarm_.store(number);
  if (operations_.newest() < number) futex_wait(rung_, seen, deadline);
  alarm_.store(UINT64_MAX);
}

void FlightRecorder::ring() noexcept {
  alarm_.store(UINT64_MAX);
  rung_.fetch_add(1);
  futex_wake_all(rung_);
}

}  // namespace hvd::engine
