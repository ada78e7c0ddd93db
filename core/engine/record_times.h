// SPDX-License-Identifier: Apache-2.0
// The times of a record in nanoseconds of the clock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/ticks.h"
#include "engine/flight_recorder.h"

namespace hvd::engine {

// Turns ticks into times of the clock. To be made after the records have been read. The further
// back, the less exact: by the drift of one against the other since then.
class RecordClock {
 public:
  explicit RecordClock(const TickRate& rate)
      : per_tick_(rate.nanoseconds_per_tick()), ticks_(ticks()), time_(now()) {}

  int64_t time(uint64_t at) const {
    return at == 0 ? 0 : time_.time_since_epoch().count() - duration(ticks_ - at);
  }
  int64_t duration(uint64_t count) const {
    return static_cast<int64_t>(static_cast<double>(count) * per_tick_);
  }

 private:
  double per_tick_;
  uint64_t ticks_;
  Time time_;
};

// As in hvd_record.
struct RecordTimes {
  int64_t submitted = 0;
  int64_t agreed = 0;
  int64_t begun = 0;
  int64_t ended = 0;
  int64_t waited = 0;
  int64_t moved = 0;
  int64_t reduced = 0;
  int64_t copied = 0;
};

inline RecordTimes times_of(const FlightRecorder::Entry& entry, const RecordClock& clock) {
  RecordTimes times;
  times.submitted = entry.operation.submitted;
  times.ended = clock.time(entry.operation.ended);
  times.agreed = clock.time(entry.group.agreed);
  times.begun = clock.time(entry.group.begun);
  times.waited = clock.duration(entry.group.waited);
  times.reduced = clock.duration(entry.group.reduced);
  times.copied = clock.duration(entry.group.copied);
  if (times.begun != 0) {
    const int64_t known = times.waited + times.reduced + times.copied;
    times.moved = std::max<int64_t>(times.ended - times.begun - known, 0);
  } else if (entry.operation.use != 0) {  // ended with the message that said so
    times.agreed = times.ended;
    times.begun = times.ended;
  }
  return times;
}

}  // namespace hvd::engine
