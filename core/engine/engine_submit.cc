// SPDX-License-Identifier: Apache-2.0
// Engine: the way of an operation from the caller into its set, and out again.
#include <algorithm>

#include "engine/engine.h"

namespace hvd::engine {

namespace {

// Unnamed operations take names from a ring, so that the response cache knows them the next time round.
constexpr uint64_t kUnnamedNames = 256;
// A burst of submissions that nobody has driven for so long gets the engine's thread.
constexpr Duration kUndrivenLimit = std::chrono::microseconds(300);

// The place is the text by which an operation is unique in its set. The text belongs to the operation and lives as long.
std::string_view place_of(const Operation& operation, bool names_by_kind) {
  return names_by_kind || operation.unnamed ? std::string_view(operation.key) : operation.name();
}

// False if an operation of this name is in flight. Memory is allocated only when the set has more in flight than ever before.
bool insert_name(ProcessSet& set, Operation* operation, bool names_by_kind) {
  const std::string_view place = place_of(*operation, names_by_kind);
  if (set.unused_names.empty()) {
    // Room for every node: to give one back must not need memory.
    const size_t nodes = set.in_flight.size() + 1;
    if (set.unused_names.capacity() < nodes) set.unused_names.reserve(2 * nodes);
    return set.in_flight.emplace(place, operation).second;
  }
  auto node = std::move(set.unused_names.back());
  set.unused_names.pop_back();
  node.key() = place;
  node.mapped() = operation;
  auto inserted = set.in_flight.insert(std::move(node));
  if (!inserted.inserted) set.unused_names.push_back(std::move(inserted.node));
  return inserted.inserted;
}

}  // namespace

Status Engine::admit(Operation& operation) {
  if (fork_guard_.forked()) {
    return Status(Code::kInvalidState, operation.subject() + ": this context belongs to the parent of this process");
  }
  if (!status_.ok()) return operation.worded(status_);
  if (!departure_.ok() && operation.set->serial == 0) {
    faults_->note(departure_);
    return operation.worded(departure_);
  }
  if (operation.set->id.load() < 0) {
    return Status(Code::kInvalidState, operation.subject() + ": the process set has been destroyed");
  }
  if (operation.set->me < 0) {
    return Status(Code::kInvalidArgument, operation.subject() + ": rank " + std::to_string(topology_.rank()) +
                                              " is not a member of process set " + std::to_string(operation.set->id.load()));
  }
  return {};
}

// Gives an unnamed operation its place in the order of the set. False if the operation has to wait for its place, because the
// one before it in this place is in flight, or because the number of the place will be known when the join in flight ends.
bool Engine::take_place(ProcessSet& set, Operation& operation) {
  if (set.joining) return false;
  operation.set_key(negotiation::kUnnamedMark, "unnamed." + std::to_string(set.next_unnamed % kUnnamedNames));
  if (!insert_name(set, &operation, shadow_options_.names_by_kind)) return false;
  ++set.next_unnamed;
  return true;
}

// Registers the name; kPending if the operation must wait for its place.
Status Engine::enter(Operation& operation) {
  ProcessSet& set = *operation.set;
  if (operation.unnamed) {
    const auto waiting = deferred_.find(&set);
    if ((waiting == deferred_.end() || waiting->second.empty()) && take_place(set, operation)) return {};
    deferred_[&set].push_back(&operation);
    return Status::pending();
  }
  if (!insert_name(set, &operation, shadow_options_.names_by_kind)) {
    return Status(Code::kAlreadyExists, operation.subject() + ": an operation of this name is in flight on process set " +
                                            std::to_string(set.id.load()));
  }
  if (operation.kind == OpKind::kJoin) set.joining = true;
  return {};
}

// A join resets the order of unnamed operations: ranks that made different numbers of unnamed calls before the join count alike
// from now on.
void Engine::end_join(ProcessSet& set, bool joined) {
  set.joining = false;
  if (joined) set.next_unnamed = 0;
}

Result<Operation*> Engine::submit(std::unique_ptr<Operation> owned) {
  bool wake = false;
  Operation* operation = owned.get();
  operation->submitted = now();
  {
    MutexLock lock(submit_mutex_);
    HVD_TRY(admit(*operation));
    // Steps that may find no memory come before steps that would have to be taken back.
    if (submitted_.size() == submitted_.capacity()) submitted_.reserve(2 * submitted_.size() + 16);
    const Status entered = enter(*operation);
    if (!entered.ok() && entered.code() != Code::kPending) return entered;
    owned.release();
    operation->add_reference();
    all_in_flight_.add(*operation);
    if (entered.ok()) submitted_.push_back(operation);
    has_submitted_.store(true);  // before bursts_ is read: end_burst() does both in the other order
    if (in_flight_.fetch_add(1) == 0) {
      fabric_->set_interest(true);
      first_undriven_.store(operation->submitted.time_since_epoch().count(), std::memory_order_relaxed);
      // Others' messages rang no bell so far. If nobody waits after all, the thread must look: a thread that stands by looks
      // soon.
      wake = !expect_wait_ || !thread_standing_by_.load() || completions_.queueing();
    } else {
      const Time first{Duration(first_undriven_.load(std::memory_order_relaxed))};
      // A wait was expected and has not come; from now on what calls for the thread wakes it: see announce().
      wake = operation->submitted - first > kUndrivenLimit && expect_wait_.exchange(false);
    }
  }
  count(metrics_.operations_submitted);
  if (wake) wake_owed_.store(true);
  if (bursts_.load() == 0) announce();
  return operation;
}

Status Engine::end_burst() {
  int begun = bursts_.load();
  while (begun > 0 && !bursts_.compare_exchange_weak(begun, begun - 1)) continue;
  if (begun == 0) return Status(Code::kInvalidState, "end of a burst that was not begun");
  if (begun == 1) announce();
  return {};
}

// Tells the others of all that has been submitted, and wakes the thread if the thread has to look. A caller that is expected to
// wait at once will look itself; if the caller does not wait, a thread that stands by looks soon.
void Engine::announce() {
  home_.move_here();
  const bool look = kick() && (!expect_wait_ || !thread_standing_by_.load() || completions_.queueing());
  const bool owed = wake_owed_.load() && wake_owed_.exchange(false) && in_flight_.load() > 0;
  if (look || owed) ensure_driver();
}

// Announces what has been submitted. The caller's thread does so unless somebody drives; then the driver does. True if the
// announcement left something to do, which no message from others would wake the thread for.
bool Engine::kick() {
  bool look = false;
  while (has_submitted_.load()) {
    if (!role_.try_lock()) break;
    const MutexLock role(role_, std::adopt_lock);
    time_ = now();
    const Time tick = next_tick_;
    attempt([this]() HVD_REQUIRES(role_) { return accept(); });
    look = look || next_tick_ < tick || look_needed();
  }
  return look;
}

bool Engine::look_needed() const {
  return !breaking_.ok() || !ended_sets_.empty() || fabric_->has_unsent() ||
         std::any_of(sets_.begin(), sets_.end(), [](const auto& set) { return set.second->must_plan(); });
}

bool Engine::accept() {
  if (!has_submitted_.load(std::memory_order_acquire)) return false;
  {
    MutexLock lock(submit_mutex_);
    accepted_.swap(submitted_);
    has_submitted_.store(false, std::memory_order_release);
    if (options_changed_) {
      options_ = shadow_options_;
      options_changed_ = false;
      for (const auto& [serial, set] : sets_) set->apply_options();
    }
  }
  std::vector<Operation*> batch;
  batch.swap(accepted_);
  SetEngine* touched = nullptr;
  for (Operation* operation : batch) {
    const auto found = sets_.find(operation->set->serial);
    if (found == sets_.end()) {
      complete(operation, Status(Code::kCancelled, operation->subject() + ": the process set has been destroyed"));
      continue;
    }
    if (touched != nullptr && touched != found->second.get()) touched->flush();
    touched = found->second.get();
    tick_by(operation->deadline);
    if (operation->staging) home_.leave();
    touched->submit(operation);  // an eager exchange, say, may end the operation at once; the operation's waiter then frees it
  }
  if (touched != nullptr) touched->flush();
  // Stall reports are due from the oldest operation on; the tick that finds none costs nothing.
  if (in_flight_.load() > 0) tick_by(time_ + kTickEvery);
  batch.clear();
  accepted_.swap(batch);  // keeps the memory
  return true;
}

void Engine::release_deferred(ProcessSet& set) {
  const auto found = deferred_.find(&set);
  if (found == deferred_.end()) return;
  std::deque<Operation*>& waiting = found->second;
  while (!waiting.empty() && take_place(set, *waiting.front())) {
    submitted_.push_back(waiting.front());
    waiting.pop_front();
    has_submitted_.store(true, std::memory_order_release);
  }
  if (waiting.empty()) deferred_.erase(found);
}

std::unique_ptr<Operation> Engine::fresh_operation() {
  MutexLock lock(pool_mutex_);
  if (pool_.empty()) return std::make_unique<Operation>();
  std::unique_ptr<Operation> operation = std::move(pool_.back());
  pool_.pop_back();
  return operation;
}

void Engine::recycle(std::unique_ptr<Operation> operation) {
  if (fork_guard_.forked()) return;  // the parent may have held the lock
  operation->reset();
  MutexLock lock(pool_mutex_);
  if (pool_.size() < pool_.capacity()) pool_.push_back(std::move(operation));
}

void Engine::complete(Operation* operation, Status status) {
  {
    MutexLock lock(submit_mutex_);
    ProcessSet& set = *operation->set;
    give_name_back(*operation);
    if (operation->kind == OpKind::kJoin) end_join(set, status.ok());
    if (!deferred_.empty()) release_deferred(set);  // may find no memory, so the operation stays in the list until then
    unlist(*operation);
  }
  announce_end(operation, std::move(status));
}

void Engine::give_name_back(Operation& operation) noexcept {
  ProcessSet& set = *operation.set;
  const auto found = set.in_flight.find(place_of(operation, shadow_options_.names_by_kind));
  if (found != set.in_flight.end() && found->second == &operation) set.unused_names.push_back(set.in_flight.extract(found));
}

void Engine::unlist(Operation& operation) noexcept {
  all_in_flight_.remove(operation);
  if (in_flight_.fetch_sub(1) == 1) fabric_->set_interest(false);
}

void Engine::announce_end(Operation* operation, Status status) noexcept {
  count(status.ok() ? metrics_.operations_completed : metrics_.operations_failed);
  if (!status.ok()) faults_->note(status);
  if (operation->kind == OpKind::kJoin && status.ok()) count(metrics_.joins);
  const bool queued = completions_.queueing();
  if (queued) operation->add_reference();
  operation->complete(std::move(status));
  void* user_data = nullptr;
  if (Operation::Callback callback = operation->take_callback(&user_data)) {
    operation->add_reference();
    completions_.call(callback, user_data, operation);
  }
  if (queued) completions_.queue(operation);
  operation->drop_reference();
}

}  // namespace hvd::engine
