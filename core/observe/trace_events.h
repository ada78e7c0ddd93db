// SPDX-License-Identifier: Apache-2.0
// Records of operations as events of Chrome's trace format, with Horovod's names. Each tensor has a
// row, in the format a process. Only what the records say becomes an event: a duration without a
// known beginning is an argument of the span in which it lies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/flight_recorder.h"
#include "engine/record_times.h"
#include "negotiation/arrivals.h"
#include "observe/clock_offset.h"
#include "observe/trace_file.h"

namespace hvd::observe {

// The facts that a file tells of itself, in the arguments of its first event.
struct TraceHead {
  int rank = 0;
  int size = 1;
  std::string host;
  int pid = 0;
  int64_t start = 0;       // nanoseconds of CLOCK_MONOTONIC, from which the events count
  int64_t start_unix = 0;  // the same moment in microseconds since 1970
  ClockOffset clock;
  bool mark_cycles = false;
  std::string mover = "HVD";  // before the name of the activity that moves data: HVD_ALLREDUCE
};

class TraceEvents {
 public:
  explicit TraceEvents(TraceHead head) : head_(std::move(head)) {}

  void begin(Elements* out) const;
  // Adds an operation that has ended. `arrivals`: when the members announced it, or nullptr;
  // `last_rank`: the rank that came last, or -1.
  void add(const engine::FlightRecorder::Entry& entry, const engine::RecordTimes& times,
           const negotiation::Arrivals::Use* arrivals, int last_rank, Elements* out);
  // Operations of which nothing is known, because the recorder had forgotten them before they were
  // read.
  void add_lost(uint64_t operations, int64_t now, Elements* out) const;

 private:
  struct Row {
    int number = 0;
    int64_t free = 0;  // when its last operation ended
  };
  struct Operation;  // a record on its way into events
  Row& row_for(const Operation& operation, Elements* out);
  void negotiation(const Operation& operation, const negotiation::Arrivals::Use* arrivals,
                   int last_rank, Elements* out) const;
  void execution(const Operation& operation, Elements* out) const;
  void event(char phase, std::string_view name, int64_t at, int row, Elements* out) const;

  const TraceHead head_;
  // By process set and name. Operations that were under way at once under one name have a row each.
  std::unordered_map<std::string, std::vector<Row>> rows_;
  int last_row_ = 0;
  int64_t last_cycle_ = 0;
};

}  // namespace hvd::observe
