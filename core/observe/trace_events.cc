// SPDX-License-Identifier: Apache-2.0
#include "observe/trace_events.h"

#include <algorithm>
#include <cctype>

#include "base/dtype.h"
#include "base/op_kind.h"
#include "base/status.h"
#include "observe/json.h"

namespace hvd::observe {

using engine::FlightRecorder;
using engine::OperationRecord;
using engine::RecordTimes;
using negotiation::Arrivals;

namespace {

// A submission is timed by the clock and an end by ticks: an operation may seem to begin a little
// before the end of the one before it.
constexpr int64_t kClockSlack = 100'000;

std::string upper(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == ' ' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

bool is_adasum(const OperationRecord& record) {
  return static_cast<OpKind>(record.kind) == OpKind::kAllreduce &&
         static_cast<ReduceOp>(record.op) == ReduceOp::kAdasum;
}

// As Horovod spells the operation, and the activity that moves its data.
std::string operation_name(const OperationRecord& record) {
  if (is_adasum(record)) return "ADASUM";
  return upper(op_kind_name(static_cast<OpKind>(record.kind)));
}
std::string activity_name(const OperationRecord& record) {
  if (is_adasum(record)) return "ADASUM_ALLREDUCE";
  if (static_cast<OpKind>(record.kind) == OpKind::kBroadcast) return "BCAST";
  return operation_name(record);
}

std::string shape_text(const OperationRecord& record) {
  constexpr size_t kKnown = sizeof record.shape / sizeof record.shape[0];
  std::string text = "[";
  for (size_t i = 0; i < std::min<size_t>(record.ndim, kKnown); ++i) {
    if (i > 0) text += ", ";
    append_number(text, record.shape[i]);
  }
  return text + (record.ndim > kKnown ? ", ...]" : "]");
}

// The arguments of an event, one after another.
class Arguments {
 public:
  explicit Arguments(std::string& out) : out_(out) { out_ += ",\"args\":{"; }
  ~Arguments() { out_ += '}'; }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  Arguments& text(std::string_view name, std::string_view value) {
    key(name);
    append_text(out_, value);
    return *this;
  }
  Arguments& number(std::string_view name, int64_t value) {
    key(name);
    append_number(out_, value);
    return *this;
  }
  Arguments& microseconds(std::string_view name, int64_t nanoseconds) {
    key(name);
    append_microseconds(out_, nanoseconds);
    return *this;
  }
  Arguments& nothing(std::string_view name) {
    key(name);
    out_ += "null";
    return *this;
  }

 private:
  void key(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    append_text(out_, name);
    out_ += ':';
  }
  std::string& out_;
  bool first_ = true;
};

void end(Elements* out) {
  out->text() += '}';
  out->end();
}

}  // namespace

struct TraceEvents::Operation {
  const FlightRecorder::Entry& entry;
  std::string name;
  int row = 0;
  // Nanoseconds, none before the one above it; agreed and later are 0 if the operation has not come
  // so far.
  int64_t announced = 0;
  int64_t agreed = 0;
  int64_t begun = 0;
  int64_t ended = 0;
  RecordTimes times;

  bool came_together() const { return agreed != 0; }
  bool ok() const { return entry.operation.status == 0; }
  bool moves() const { return traits_of(static_cast<OpKind>(entry.operation.kind)).moves_data; }
};

// Everything of an event but its arguments and the brace behind them.
void TraceEvents::event(char phase, std::string_view name, int64_t at, int row,
                        Elements* out) const {
  std::string& text = out->text();
  text += "{\"ph\":\"";
  text += phase;
  text += '"';
  if (!name.empty()) {
    text += ",\"name\":";
    append_text(text, name);
  }
  if (phase != 'M') {
    text += ",\"ts\":";
    append_microseconds(text, at - head_.start);
  }
  text += ",\"pid\":";
  append_number(text, row);
  text += ",\"tid\":0";
}

void TraceEvents::begin(Elements* out) const {
  event('M', "process_name", 0, 0, out);
  {
    Arguments arguments(out->text());
    arguments.text("name", "rank " + std::to_string(head_.rank) + " on " + head_.host)
        .number("start_time_since_epoch_in_micros", head_.start_unix)
        .number("start_monotonic_ns", head_.start)
        .number("rank", head_.rank)
        .number("size", head_.size)
        .text("host", head_.host)
        .number("process_id", head_.pid);
    if (head_.clock.known) {
      arguments.number("clock_offset_ns", head_.clock.offset)
          .number("clock_error_ns", head_.clock.error);
    } else {
      arguments.nothing("clock_offset_ns").nothing("clock_error_ns");
    }
  }
  end(out);
  event('M', "process_sort_index", 0, 0, out);
  Arguments(out->text()).number("sort_index", 0);
  end(out);
}

TraceEvents::Row& TraceEvents::row_for(const Operation& operation, Elements* out) {
  const FlightRecorder::Entry& entry = operation.entry;
  std::vector<Row>& rows = rows_[std::to_string(entry.set) + ' ' + entry.name];
  for (Row& row : rows)
    if (row.free <= operation.times.submitted + kClockSlack) return row;
  Row& row = rows.emplace_back();
  row.number = ++last_row_;
  std::string name = entry.name;
  if (entry.set != 0) name += " (process set " + std::to_string(entry.set) + ")";
  event('M', "process_name", 0, row.number, out);
  Arguments(out->text()).text("name", name);
  end(out);
  event('M', "process_sort_index", 0, row.number, out);
  Arguments(out->text()).number("sort_index", row.number);
  end(out);
  return row;
}

void TraceEvents::add(const FlightRecorder::Entry& entry, const RecordTimes& times,
                      const Arrivals::Use* arrivals, int last_rank, Elements* out) {
  Operation operation{.entry = entry, .name = operation_name(entry.operation), .times = times};
  Row& row = row_for(operation, out);
  operation.row = row.number;
  operation.announced = times.submitted;
  if (arrivals != nullptr)
    operation.announced = std::min(operation.announced, arrivals->since.time_since_epoch().count());
  operation.announced = std::max({operation.announced, row.free, head_.start});
  if (times.agreed != 0) operation.agreed = std::max(times.agreed, operation.announced);
  if (times.begun != 0) operation.begun = std::max(times.begun, operation.agreed);
  operation.ended = std::max({times.ended, operation.announced, operation.agreed, operation.begun});
  row.free = operation.ended;

  if (head_.mark_cycles && entry.group.agreed != 0 && times.agreed > last_cycle_) {
    last_cycle_ = times.agreed;
    event('i', "CYCLE_START", operation.agreed, 0, out);
    out->text() += ",\"s\":\"g\"";
    end(out);
  }
  negotiation(operation, arrivals, last_rank, out);
  if (operation.came_together() && operation.moves()) execution(operation, out);
}

void TraceEvents::negotiation(const Operation& operation, const Arrivals::Use* arrivals,
                              int last_rank, Elements* out) const {
  event('B', "NEGOTIATE_" + operation.name, operation.announced, operation.row, out);
  end(out);
  for (size_t member = 0; arrivals != nullptr && member < arrivals->after.size(); ++member) {
    if (arrivals->after[member] == Arrivals::kNotYet) continue;
    const int64_t at =
        arrivals->since.time_since_epoch().count() + int64_t{arrivals->after[member]} * 1000;
    event('X', std::to_string(member), at, operation.row, out);
    out->text() += ",\"dur\":0";
    end(out);
  }
  const OperationRecord& record = operation.entry.operation;
  event('E', "", operation.came_together() ? operation.agreed : operation.ended, operation.row,
        out);
  {
    Arguments arguments(out->text());
    arguments.number("process_set", operation.entry.set);
    if (record.use != 0) arguments.number("use", static_cast<int64_t>(record.use));
    if (last_rank >= 0)
      arguments.number("last_rank", last_rank)
          .microseconds("spread_us", int64_t{record.spread} * 1000);
    if (!operation.ok()) arguments.text("status", code_name(static_cast<Code>(record.status)));
  }
  end(out);
}

void TraceEvents::execution(const Operation& operation, Elements* out) const {
  const FlightRecorder::Entry& entry = operation.entry;
  const RecordTimes& times = operation.times;
  event('B', operation.name, operation.agreed, operation.row, out);
  end(out);
  if (entry.group.begun != 0) {
    event('B', "QUEUE", operation.agreed, operation.row, out);
    end(out);
    event('E', "", operation.begun, operation.row, out);
    end(out);
    event('B', head_.mover + "_" + activity_name(entry.operation), operation.begun, operation.row,
          out);
    end(out);
    event('E', "", operation.ended, operation.row, out);
    Arguments(out->text())
        .microseconds("waited_us", times.waited)
        .microseconds("moved_us", times.moved)
        .microseconds("reduced_us", times.reduced)
        .microseconds("copied_us", times.copied)
        .number("group", static_cast<int64_t>(entry.operation.group))
        .number("group_operations", static_cast<int64_t>(entry.group.operations))
        .number("group_bytes", static_cast<int64_t>(entry.group.bytes));
    end(out);
  }
  event('E', "", operation.ended, operation.row, out);
  {
    Arguments arguments(out->text());
    if (operation.ok()) {
      arguments.text("dtype", dtype_name(static_cast<DType>(entry.operation.dtype)))
          .text("shape", shape_text(entry.operation));
    } else {
      arguments.text("status", code_name(static_cast<Code>(entry.operation.status)));
    }
    arguments.number("bytes", static_cast<int64_t>(entry.operation.bytes))
        .number("tensors", entry.operation.tensors);
  }
  end(out);
}

void TraceEvents::add_lost(uint64_t operations, int64_t now, Elements* out) const {
  event('i', "LOST_OPERATIONS", now, 0, out);
  out->text() += ",\"s\":\"g\"";
  Arguments(out->text()).number("operations", static_cast<int64_t>(operations));
  end(out);
}

}  // namespace hvd::observe
