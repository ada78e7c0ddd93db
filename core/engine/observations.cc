// SPDX-License-Identifier: Apache-2.0
#include "engine/observations.h"

#include <algorithm>

#include "engine/operation.h"
#include "engine/process_set.h"

namespace hvd::engine {

namespace {

// A tenth of a second on most machines. Between two looks ticks and clock drift apart by less than
// a microsecond.
constexpr uint64_t kTicksPerLook = uint64_t{1} << 28;
// A rank that comes last by less than this is no straggler. In every operation a rank comes last.
constexpr uint32_t kLateMicroseconds = 1000;

uint64_t not_negative(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(value, 0)); }

uint64_t difference(uint64_t larger, uint64_t smaller) {
  return larger > smaller ? larger - smaller : 0;
}

// Most amounts are 0, and a locked instruction takes longer than all the rest.
void add(std::atomic<uint64_t>& counter, uint64_t amount) {
  if (amount != 0) count(counter, amount);
}

}  // namespace

uint64_t CoveredTime::add(int64_t begin, int64_t end) {
  if (end <= begin) return 0;
  if (begin > end_) {
    before_ = end_;
    begin_ = begin;
    end_ = end;
    return static_cast<uint64_t>(end - begin);
  }
  int64_t added = 0;
  if (const int64_t from = std::max(begin, before_); from < begin_) {
    added += begin_ - from;
    begin_ = from;
  }
  if (end > end_) {
    added += end - end_;
    end_ = end;
  }
  return static_cast<uint64_t>(added);
}

void Observations::look(uint64_t at) noexcept {
  if (ticks_ != 0 && at - ticks_ < kTicksPerLook) return;
  per_tick_ = rate_.nanoseconds_per_tick();
  ticks_ = ticks();
  time_ = now().time_since_epoch().count();
}

void Observations::operation(const Operation& operation, uint64_t bytes, uint64_t ended) noexcept {
  // Joining lasts as long as the others work, and says nothing about anybody's speed.
  if (operation.kind >= OpKind::kCreateSet || operation.kind == OpKind::kJoin) return;
  look(ended);
  const int64_t submitted = operation.submitted.time_since_epoch().count();
  const int64_t end = time(ended);
  const bool in_group = operation.begun != 0;
  const int64_t agreed = in_group ? time(operation.agreed) : end;
  if (traits_of(operation.kind).moves_data) {
    histograms_.operation_size.add(bytes);
    if (in_group)
      histograms_.queue_wait.add(duration(difference(operation.begun, operation.agreed)));
  }
  histograms_.operation_duration.add(not_negative(end - submitted));
  histograms_.announcement_wait.add(not_negative(agreed - submitted));
  waiting(operation, agreed);
}

void Observations::waiting(const Operation& operation, int64_t agreed) noexcept {
  const int64_t submitted = operation.submitted.time_since_epoch().count();
  add(metrics_.missing_ranks_time, missing_ranks_.add(submitted, agreed));
  const negotiation::Agreement& agreement = operation.agreement;
  if (agreement.last == UINT32_MAX) return;  // the lowest rank of the set alone knows
  const int64_t spread = int64_t{agreement.spread} * 1000;
  histograms_.announcement_spread.add(not_negative(spread));
  if (static_cast<int>(agreement.last) != operation.set->me) return;
  if (agreement.spread < kLateMicroseconds) return;
  count(metrics_.operations_late);
  count(metrics_.late_time, late_.add(agreed - spread, agreed));
}

void Observations::group(const GroupRecord& group, const backend::Effort& spent,
                         bool direct) noexcept {
  add(metrics_.bytes_by_shared_memory, spent.shared_bytes);
  add(metrics_.bytes_by_tcp, spent.streamed_bytes);
  add(metrics_.bytes_by_plugin, spent.plugin_bytes);
  if (direct) count(metrics_.bytes_by_device, group.bytes);
  if (group.bytes == 0) return;
  const uint64_t ended = ticks();
  look(ended);
  histograms_.group_size.add(group.bytes);
  histograms_.group_operations.add(group.operations);
  histograms_.group_waited.add(duration(group.waited));
  histograms_.group_reduced.add(duration(group.reduced));
  histograms_.group_copied.add(duration(group.copied));
  const uint64_t known = group.waited + group.reduced + group.copied;
  histograms_.group_moved.add(duration(difference(difference(ended, group.begun), known)));
}

}  // namespace hvd::engine
