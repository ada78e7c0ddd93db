// SPDX-License-Identifier: Apache-2.0
// The layout of a flight recorder's memory. Other processes read that memory from a file (the
// option flight_file), also when this rank stands still or has been killed. So a change of the
// layout changes kFlightVersion, too, and its readers, horovod/runner/on_host/flight.py.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hvd::engine {

inline constexpr uint32_t kFlightVersion = 1;
inline constexpr std::array<char, 8> kFlightMagic = {'h', 'v', 'd', 'f', 'l', 'y', 0, 1};
inline constexpr size_t kFlightOperations = 4096;
inline constexpr size_t kFlightLabels = kFlightOperations + kFlightOperations / 2;
// Readers want the newest clock, wait and stall; so many are kept for a reader that is slow.
inline constexpr size_t kFlightNewest = 8;
inline constexpr size_t kFlightName = 96;

// Times named `ticks` are of base/ticks.h, all others nanoseconds of CLOCK_MONOTONIC.

struct OperationRecord {
  uint64_t use = 0;  // the same on all members; 0 if the members have not come together
  int64_t submitted = 0;
  uint64_t ended = 0;   // ticks
  uint64_t bytes = 0;   // bytes of the inputs
  uint64_t group = 0;   // number of the GroupRecord; 0 if the operation did not run in a group
  uint32_t label = 0;   // number of the LabelRecord
  uint32_t spread = 0;  // see negotiation::Agreement
  std::array<int64_t, 4> shape{};  // the first dimensions of the first tensor
  uint16_t last = UINT16_MAX;      // the member that announced the operation last
  int8_t status = 0;
  uint8_t kind = 0;
  uint8_t dtype = 0;
  uint8_t op = 0;
  uint8_t ndim = 0;
  uint8_t zero = 0;
  uint32_t tensors = 0;
  uint32_t zero_too = 0;
};

// The group as part of which operations ran. Durations are in ticks.
struct GroupRecord {
  uint64_t agreed = 0;  // ticks: when this rank learned of the plan
  uint64_t begun = 0;   // ticks
  uint64_t waited = 0;  // in which nothing could be done until another rank acted
  uint64_t reduced = 0;
  uint64_t copied = 0;
  uint64_t bytes = 0;
  uint64_t operations = 0;
  int64_t waited_for = -1;  // the rank for which the group waited longest at a stretch
};

struct LabelRecord {
  int32_t set = 0;
  std::array<char, 124>
      name{};  // without a NUL if it fills the field; a long name lacks its middle
};

// The same moment in ticks and by the clock: two such records tell how long a tick is.
struct ClockRecord {
  uint64_t ticks = 0;
  int64_t time = 0;
};

// The operation for which this rank waited when the driver looked, ten times a second.
struct WaitRecord {
  int64_t at = 0;
  int64_t submitted = 0;
  uint64_t in_flight = 0;
  int32_t set = 0;
  uint8_t kind = 0;
  uint8_t planned = 0;      // 1: all members have announced the operation
  int16_t waited_for = -1;  // the rank whose data the operation waits for; -1 if not known
  std::array<char, kFlightName> name{};
};

// A report of an operation that waits for too long.
struct StallRecord {
  int64_t at = 0;
  int64_t submitted = 0;
  int32_t set = 0;
  uint8_t kind = 0;
  uint8_t zero = 0;
  uint16_t missing_count = 0;
  std::array<int32_t, 16> missing{};  // the first of the ranks that are waited for
  std::array<char, kFlightName> name{};
  std::array<char, 328> text{};
};

struct FlightRing {
  uint64_t offset = 0;
  uint32_t slots = 0;
  uint32_t slot_bytes = 0;          // a value with its number
  std::atomic<uint64_t> newest{0};  // number of the newest value
};

enum class FlightState : int32_t { kWorks = 1, kLeft = 2, kBroken = 3 };

struct FlightHeader {
  std::atomic<uint64_t> magic{0};  // written last
  uint32_t header_bytes = 0;
  uint32_t version = 0;
  int32_t rank = -1;
  int32_t size = 0;
  int32_t pid = 0;
  std::atomic<int32_t> state{0};
  uint64_t zero = 0;
  std::atomic<uint64_t> submitted{0};  // operations so far
  uint64_t bytes = 0;                  // header and rings
  uint64_t zero_too = 0;
  FlightRing operations, groups, labels, clocks, waits, stalls;
  uint64_t rest[6] = {};
};
static_assert(sizeof(FlightHeader) == 256 && offsetof(FlightHeader, state) == 28 &&
              offsetof(FlightHeader, submitted) == 40 && offsetof(FlightHeader, operations) == 64);
static_assert(sizeof(OperationRecord) == 96 && sizeof(GroupRecord) == 64 &&
              sizeof(LabelRecord) == 128 && sizeof(ClockRecord) == 16 &&
              sizeof(WaitRecord) == 128 && sizeof(StallRecord) == 512);

}  // namespace hvd::engine
