// SPDX-License-Identifier: Apache-2.0
// SetEngine: operations that wait for other ranks: time limits, stall reports, and the limit of a
// stall. The coordinator knows who is missing, and decides, so that all ranks end an operation
// alike; a coordinator that does not answer counts as lost.
#include <algorithm>
#include <cmath>

#include "engine/set_engine.h"

namespace hvd::engine {

namespace {

// A coordinator that has not answered for so long is not going to answer.
constexpr Duration kAnswerTime = std::chrono::seconds(1);
// So long before an operation is to end, the coordinator is asked who is missing: the texts of the
// end are to be fresh.
constexpr Duration kAskedBefore = std::chrono::milliseconds(500);

// Each report comes after twice the time of the one before, so that a log that grows all night
// stays readable.
Time next_report(Time since, Time now) { return now + (now - since); }

Time before(Time end, Duration time) { return end == kNever ? kNever : end - time; }

}  // namespace

bool tells_more(const Operation& a, const Operation& b, std::string_view key) {
  const bool named_a = a.name() == negotiation::name_of(key),
             named_b = b.name() == negotiation::name_of(key);
  if (named_a != named_b) return named_a;
  const bool awaited_a = a.awaited.load(std::memory_order_relaxed),
             awaited_b = b.awaited.load(std::memory_order_relaxed);
  return awaited_a != awaited_b ? awaited_a : a.submitted < b.submitted;
}

const Operation* SetEngine::wait_of(std::string_view key) const {
  const Operation* best = nullptr;
  const auto look_at = [&](const Operation* operation) {
    if (best == nullptr || tells_more(*operation, *best, key)) best = operation;
  };
  for (const Operation* operation : waiting_) look_at(operation);
  for (const auto& job : jobs_)
    std::for_each(job->operations().begin(), job->operations().end(), look_at);
  if (running_)
    std::for_each(running_->operations().begin(), running_->operations().end(), look_at);
  return best;
}

Time SetEngine::tick(Time now) {
  if (dead_) return kNever;
  stood_still_ = now - last_tick_ > kAnswerTime / 2;
  last_tick_ = now;
  Time next = coordinator_ ? coordinator_->tick(now) : kNever;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Operation& operation = **at++;  // advanced first: checking may end the operation
    next = std::min(next, check_operation(operation, now));
    if (dead_) return kNever;  // the list has gone
  }
  return std::min({next, held_until(), watch_device(now), check_running(now)});
}

// A group that runs waits for nobody's decision, but the group's data may wait for a rank that
// stands still. Only ranks that wait for the late rank directly know which rank is late, so nobody
// is blamed: others may name a rank that waits itself.
Time SetEngine::check_running(Time now) {
  const Options& options = host_.options();
  const bool reports = !options.stall_check_disable && options.stall_check_time_seconds > 0;
  const int late = straggler();
  if (!reports || late < 0 || data_moved_ || stood_still_ || running_->operations().empty()) {
    data_moved_ = false;
    data_since_ = now;
    data_report_ = kNever;
    return kNever;
  }
  if (data_report_ == kNever)
    data_report_ = data_since_ + from_seconds(options.stall_check_time_seconds);
  const std::string text =
      running_->operations()[0]->subject() + ": no data for " +
      std::to_string(std::lround(std::chrono::duration<double>(now - data_since_).count())) +
      " s; waits for " + host_.describe(late);
  const double longest = options.stall_shutdown_time_seconds;
  if (longest > 0 && now >= data_since_ + from_seconds(longest)) {
    host_.end_stalled(Status(Code::kShutDown, host_.describe(own_rank()) + ": " + text));
  } else if (now >= data_report_) {
    data_report_ = next_report(data_since_, now);
    const int64_t rank = late;
    tell_of_stall(*running_->operations()[0], {&rank, 1}, text);
  }
  return data_report_;
}

Time SetEngine::check_operation(Operation& operation, Time now) {
  if (operation.deadline != kNever && now >= operation.deadline)
    return enforce_deadline(operation, now);
  return std::min(operation.deadline, check_stall(operation, now));
}

// Where the coordinator is on this rank, asking the coordinator ends the operation: nothing
// follows.
Time SetEngine::enforce_deadline(Operation& operation, Time now) {
  // The time counts from the first question on, and anew after a standstill: the process may have
  // slept through its deadline or the answer.
  if (operation.withdrawn != kNever && stood_still_) operation.withdrawn = now;
  if (operation.withdrawn != kNever && now >= operation.withdrawn + kAnswerTime) {
    blame_coordinator(operation, "had timed out");
    return kNever;
  }
  operation.withdrawn = std::min(operation.withdrawn, now);
  const Time next = operation.withdrawn + kAnswerTime;
  // again and again: the operation may not have been announced
  member_.withdraw(operation.key, now - operation.submitted);
  return next;
}

Time SetEngine::check_stall(Operation& operation, Time now) {
  const Options& options = host_.options();
  const bool reports = !options.stall_check_disable && options.stall_check_time_seconds > 0;
  const double longest = reports ? options.stall_shutdown_time_seconds : 0;
  const Time limit = longest > 0 ? operation.submitted + from_seconds(longest) : kNever;
  const Time last_question = before(std::min(limit, operation.deadline), kAskedBefore);
  if (reports && operation.next_report == kNever) {
    operation.next_report = operation.submitted + from_seconds(options.stall_check_time_seconds);
  }
  if (operation.asked != kNever) {
    if (stood_still_) operation.asked = now;
    if (now < operation.asked + kAnswerTime)
      return std::min(now + kAnswerTime, operation.asked + kAnswerTime);
    operation.asked = kNever;
    operation.unanswered = true;
    operation.missing =
        host_.describe(set_->ranks[0]) + ", which knows who is missing, does not answer";
    operation.missing_ranks = {set_->ranks[0]};
    report(operation);
  }
  if (now >= limit && (operation.asked_last || operation.unanswered)) {
    if (operation.unanswered) {
      blame_coordinator(operation,
                        "had stalled for " + seconds_text(now - operation.submitted) + " s");
    } else {
      host_.end_stalled(
          Status(Code::kShutDown, host_.describe(own_rank()) + ": " + stall_text(operation)));
    }
    return kNever;
  }
  if (now >= operation.next_report) {
    operation.next_report = next_report(operation.submitted, now);
    operation.report_due = true;
  }
  const bool last = !operation.asked_last && now >= last_question;
  operation.asked_last = operation.asked_last || last;
  if (last || operation.report_due) {
    operation.asked = now;
    member_.query(operation.key);
    return now + kAnswerTime;
  }
  return std::min({operation.next_report, limit, operation.asked_last ? kNever : last_question});
}

void SetEngine::missing(void* token, std::span<const int64_t> ranks, std::string_view text) {
  Operation& operation = *static_cast<Operation*>(token);
  operation.asked = kNever;
  operation.unanswered = false;
  operation.missing = text;
  operation.missing_ranks.assign(ranks.begin(), ranks.end());
  report(operation);
}

void SetEngine::report(Operation& operation) {
  if (!operation.report_due) return;
  operation.report_due = false;
  tell_of_stall(operation, operation.missing_ranks, stall_text(operation));
}

void SetEngine::tell_of_stall(const Operation& operation, std::span<const int64_t> missing,
                              const std::string& text) {
  count(host_.metrics().stall_warnings);
  host_.warn(text);
  if (host_.recorder() == nullptr) return;
  StallRecord record;
  record.at = host_.time().time_since_epoch().count();
  record.submitted = operation.submitted.time_since_epoch().count();
  record.set = set_->id.load(std::memory_order_relaxed);
  record.kind = static_cast<uint8_t>(operation.kind);
  record.missing_count = static_cast<uint16_t>(std::min<size_t>(missing.size(), UINT16_MAX));
  const size_t kept = std::min(missing.size(), record.missing.size());
  for (size_t i = 0; i < kept; ++i) record.missing[i] = static_cast<int32_t>(missing[i]);
  put_name(operation.name(), record.name);
  put_name(text, record.text);
  host_.recorder()->add(record);
}

WaitRecord SetEngine::record_of_wait(const Operation& operation) const {
  WaitRecord record;
  record.at = host_.time().time_since_epoch().count();
  record.submitted = operation.submitted.time_since_epoch().count();
  record.set = set_->id.load(std::memory_order_relaxed);
  record.kind = static_cast<uint8_t>(operation.kind);
  const bool planned = std::find(waiting_.begin(), waiting_.end(), &operation) == waiting_.end();
  record.planned = planned ? 1 : 0;
  if (planned) record.waited_for = static_cast<int16_t>(straggler());
  put_name(operation.name(), record.name);
  return record;
}

std::string SetEngine::stall_text(const Operation& operation) const {
  const double waited = std::chrono::duration<double>(host_.time() - operation.submitted).count();
  return operation.subject() + ": stalled for " + std::to_string(std::lround(waited)) + " s; " +
         operation.missing;
}

void SetEngine::blame_coordinator(const Operation& operation, const std::string& after) {
  const int coordinator = set_->ranks[0];
  host_.break_context(Status(Code::kPeerLost, host_.describe(coordinator) + " did not answer for " +
                                                  seconds_text(kAnswerTime) + " s after " +
                                                  operation.subject() + " " + after)
                          .with_rank(coordinator));
}

void SetEngine::fail_stalled() {
  std::vector<Operation*> knowing;
  for (Operation* operation : waiting_) {
    if (!operation->missing.empty()) knowing.push_back(operation);
  }
  for (Operation* operation : knowing)
    fail(operation, Status(Code::kShutDown, stall_text(*operation)));
}

}  // namespace hvd::engine
