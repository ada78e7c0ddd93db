// SPDX-License-Identifier: Apache-2.0
// ProgressEngine: the end of a context, in order, by a failure, or for want of memory.
//
// An exception leaves whatever it passed half done, so after one nothing of the sets' state is used
// any more. The list of all operations in flight, which needs no memory, is left, and so are a
// status and a message that were made at the start. So every operation ends, the role is free
// again, and the other ranks learn why this one does not go on.
#include "engine/progress_engine.h"

namespace hvd::engine {

namespace {

// For the goodbye when the caller of shutdown gave no time at all: queues are flushed to peers that
// read.
constexpr Duration kGoodbyeTime = std::chrono::seconds(2);

Status has_shut_down() noexcept {
  try {
    return Status(Code::kShutDown, "this rank has shut down");
  } catch (...) {
    return Status::out_of_memory(Code::kShutDown);
  }
}

}  // namespace

void ProgressEngine::leave(Time deadline, Backoff backoff) {
  attempt([&] {
    say_goodbye(deadline, backoff);
    return true;
  });
  sets_.close();
  if (recorder_ != nullptr) recorder_->end(FlightState::kLeft);
  fabric_.leave(
      std::max(std::min(deadline, now() + kGoodbyeTime), now() + std::chrono::milliseconds(100)));
}

void ProgressEngine::say_goodbye(Time deadline, Backoff& backoff) {
  bool working = queue_.leave(has_shut_down());
  // A failure that nobody has applied yet comes first: the others must hear of it, and not of a
  // rank that leaves in order.
  if (failure_.pending()) {
    working = working && !failure_.counts();
    apply_break();
  }
  while (working && sets_.data_moving() && now() < deadline) {
    if (progress())
      backoff.reset();
    else
      backoff.pause();
  }
  if (working && sets_.data_moving()) {
    const int me = topology_.rank();
    tell_all(Status(Code::kShutDown, topology_.describe(me) + " shut down with data under way")
                 .with_rank(me));
  } else if (working) {
    for (const auto& [serial, set] : sets_) set->bye();
  }
  const Status why = has_shut_down();
  // The operations that wait for a place fail first: operations that end from here on would release
  // the waiting ones to sets that nobody serves any more.
  fail_deferred(why);
  accept();
  sets_.fail_all(why, working && !sets_.data_moving());
}

void ProgressEngine::begin_break(const Status& why, negotiation::MessageType as, int by) {
  if (failure_.pending()) return;
  // A caller that learns of the failure from an operation that ends now may shut down before the
  // failure is applied. The others must be told all the same.
  failure_.begin(why, as, by, queue_.ends_operations(why));
}

void ProgressEngine::apply_break() {
  const Failure::Pending failure = failure_.take();
  if (!failure.counts) return;  // the first cause stands
  queue_.close(failure.why);
  faults_.note(failure.why);
  log_.write(LogLevel::kError, "engine", failure.why.message());
  if (recorder_ != nullptr) recorder_->end(FlightState::kBroken);
  tell_all(failure.told, failure.as);
  if (failure.as == negotiation::MessageType::kStalled) {
    for (const auto& [serial, set] : sets_) set->fail_stalled();
  }
  sets_.fail_all(failure.why, false);
  fail_deferred(failure.why);
}

void ProgressEngine::fail_deferred(const Status& why) {
  for (Operation* operation : queue_.take_deferred()) complete(operation, operation->worded(why));
}

// The rank that `why` names is told, too, because that rank may live, and would wait for the others
// for ever.
void ProgressEngine::tell_all(const Status& why, negotiation::MessageType as) {
  Bytes message;
  negotiation::put_head(message, {as, 0});
  negotiation::put_status(message, why);
  for (int rank = 0; rank < topology_.size(); ++rank) send(rank, message, true);
}

void ProgressEngine::tell_of_start(const Status& why) {
  const int me = topology_.rank();
  tell_all(Status(Code::kPeerLost, topology_.describe(me) + " could not start: " + why.message())
               .with_rank(me));
}

void ProgressEngine::collapse() noexcept {
  if (!failure_.begin_collapse()) {
    fabric_.give_up();  // the fabric has no memory even for the news
    return;
  }
  queue_.abandon(failure_.collapse_reason());
  accepted_.clear();
  sets_.abandon();
  tell_of_collapse();
  Status worded;
  while (Operation* const operation = queue_.remove_any(&worded))
    announce_end(operation, std::move(worded));
}

void ProgressEngine::tell_of_collapse() noexcept {
  try {
    for (int rank = 0; rank < topology_.size(); ++rank) send(rank, failure_.no_memory_news(), true);
  } catch (...) {
    fabric_.give_up();
  }
  try {
    log_.write(LogLevel::kError, "engine", "the context ends: there was no memory for its work");
  } catch (...) {
    // The threads that wait are told all the same.
  }
}

}  // namespace hvd::engine
