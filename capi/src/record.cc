// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "boundary.h"
#include "engine/flight_recorder.h"
#include "engine/record_times.h"

using hvd::Status;
using hvd::engine::FlightRecorder;
using hvd::engine::RecordClock;
using hvd::engine::RecordTimes;

namespace {

void put_name(const std::string& name, hvd_record* out) {
  const size_t size = std::min(name.size(), sizeof out->name - 1);
  std::copy_n(name.begin(), size, out->name);
  out->name[size] = 0;
}

void put_times(const RecordTimes& times, hvd_record* out) {
  out->submitted = times.submitted;
  out->agreed = times.agreed;
  out->begun = times.begun;
  out->ended = times.ended;
  out->waited = times.waited;
  out->moved = times.moved;
  out->reduced = times.reduced;
  out->copied = times.copied;
}

hvd_record to_record(const FlightRecorder::Entry& entry, const RecordClock& clock,
                     const hvd::engine::Engine& engine) {
  hvd_record out{};
  out.number = entry.number;
  out.use = entry.operation.use;
  out.kind = hvd::op_kind_name(static_cast<hvd::OpKind>(entry.operation.kind));
  put_name(entry.name, &out);
  out.process_set = entry.set;
  out.status = entry.number == 0 ? HVD_PENDING : entry.operation.status;
  out.dtype = entry.operation.tensors == 0 ? -1 : entry.operation.dtype;
  out.reduce_op =
      hvd::reduces(static_cast<hvd::OpKind>(entry.operation.kind)) ? entry.operation.op : -1;
  out.tensors = entry.operation.tensors;
  out.ndim = entry.operation.ndim;
  std::copy(entry.operation.shape.begin(), entry.operation.shape.end(), out.shape);
  out.waited_for = static_cast<int32_t>(entry.group.waited_for);
  out.last_rank = engine.rank_of(entry.set, entry.operation.last);
  out.bytes = entry.operation.bytes;
  out.group = entry.operation.group;
  out.group_bytes = entry.group.bytes;
  out.group_operations = entry.group.operations;
  out.spread = int64_t{entry.operation.spread} * 1000;
  put_times(times_of(entry, clock), &out);
  return out;
}

}  // namespace

hvd_status hvd_records_snapshot(hvd_context* context, uint64_t after, hvd_record* out,
                                size_t* record_count, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (record_count == nullptr) return hvd::capi::null_argument("record_count");
    if (context->engine->forked()) return hvd::capi::forked_context();
    hvd::Result<std::vector<FlightRecorder::Entry>> entries = context->engine->records(after);
    if (!entries.ok()) return entries.status();
    if (out == nullptr) {
      *record_count = entries.value().size();
      return {};
    }
    const RecordClock clock(context->engine->tick_rate());
    const size_t count = std::min(entries.value().size(), *record_count);
    for (size_t i = 0; i < count; ++i)
      out[i] = to_record(entries.value()[i], clock, *context->engine);
    *record_count = count;
    return {};
  });
}

hvd_status hvd_record_arrivals(const hvd_process_set* set, uint64_t use, int64_t* times,
                               size_t* time_count, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (set == nullptr) return hvd::capi::null_argument("set");
    if (time_count == nullptr) return hvd::capi::null_argument("time_count");
    const auto arrivals = set->set->arrivals.load();
    if (!arrivals)
      return Status(hvd::Code::kNotFound,
                    "record arrivals: the lowest rank of the process set knows them");
    const hvd::negotiation::Arrivals::Use found = arrivals->find(use);
    if (found.number == 0)
      return Status(hvd::Code::kNotFound,
                    "record arrivals: use " + std::to_string(use) + " is not known any more");
    std::vector<int64_t> at;
    for (const uint32_t after : found.after) {
      const bool arrived = after != hvd::negotiation::Arrivals::kNotYet;
      at.push_back(arrived ? found.since.time_since_epoch().count() + int64_t{after} * 1000 : 0);
    }
    return hvd::capi::give_array(at, times, time_count, "record arrivals");
  });
}
