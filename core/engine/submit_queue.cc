// SPDX-License-Identifier: Apache-2.0
#include "engine/submit_queue.h"

#include <algorithm>
#include <utility>

namespace hvd::engine {

namespace {

// Unnamed operations take names from a ring, so that the response cache knows them the next time
// round.
constexpr uint64_t kUnnamedNames = 256;

// The place is the text by which an operation is unique in its set. The text belongs to the
// operation and lives as long.
std::string_view place_of(const Operation& operation, bool names_by_kind) {
  return names_by_kind || operation.unnamed ? std::string_view(operation.key) : operation.name();
}

// False if an operation of this name is in flight. Memory is allocated only when the set has more
// in flight than ever before.
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

// A join resets the order of unnamed operations: ranks that made different numbers of unnamed calls
// before the join count alike from now on.
void end_join(ProcessSet& set, bool joined) {
  set.joining = false;
  if (joined) set.next_unnamed = 0;
}

}  // namespace

SubmitQueue::SubmitQueue(const Options& options, transport::Fabric& fabric, FaultRecord& faults,
                         FlightRecorder* recorder)
    : rank_(fabric.topology().rank()),
      fabric_(fabric),
      faults_(faults),
      recorder_(recorder),
      options_(options),
      default_timeout_(options.op_timeout) {}

Status SubmitQueue::admit(Operation& operation) const {
  if (!closed_.ok()) return operation.worded(closed_);
  if (!world_closed_.ok() && operation.set->serial == 0) {
    faults_.note(world_closed_);
    return operation.worded(world_closed_);
  }
  if (operation.set->id.load() < 0) {
    return Status(Code::kInvalidState,
                  operation.subject() + ": the process set has been destroyed");
  }
  if (operation.set->me < 0) {
    return Status(Code::kInvalidArgument, operation.subject() + ": rank " + std::to_string(rank_) +
                                              " is not a member of process set " +
                                              std::to_string(operation.set->id.load()));
  }
  return {};
}

// Gives an unnamed operation its place in the order of the set. False if the operation has to wait
// for its place, because the one before it in this place is in flight, or because the number of the
// place will be known when the join in flight ends.
bool SubmitQueue::take_place(ProcessSet& set, Operation& operation) {
  if (set.joining) return false;
  operation.set_key(negotiation::kUnnamedMark,
                    "unnamed." + std::to_string(set.next_unnamed % kUnnamedNames));
  if (!insert_name(set, &operation, options_.names_by_kind)) return false;
  ++set.next_unnamed;
  return true;
}

// Registers the name; kPending if the operation must wait for its place.
Status SubmitQueue::enter(Operation& operation) {
  ProcessSet& set = *operation.set;
  if (operation.unnamed) {
    const auto waiting = deferred_.find(&set);
    if ((waiting == deferred_.end() || waiting->second.empty()) && take_place(set, operation))
      return {};
    deferred_[&set].push_back(&operation);
    return Status::pending();
  }
  if (!insert_name(set, &operation, options_.names_by_kind)) {
    return Status(Code::kAlreadyExists,
                  operation.subject() + ": an operation of this name is in flight on process set " +
                      std::to_string(set.id.load()));
  }
  if (operation.kind == OpKind::kJoin) set.joining = true;
  return {};
}

Result<SubmitQueue::Added> SubmitQueue::add(std::unique_ptr<Operation> owned) {
  Operation* operation = owned.get();
  MutexLock lock(mutex_);
  HVD_TRY(admit(*operation));
  // Steps that may find no memory come before steps that would have to be taken back.
  if (submitted_.size() == submitted_.capacity()) submitted_.reserve(2 * submitted_.size() + 16);
  const Status entered = enter(*operation);
  if (!entered.ok() && entered.code() != Code::kPending) return entered;
  owned.release();
  operation->add_reference();
  all_.add(*operation);
  if (recorder_ != nullptr) recorder_->count_submission();
  if (entered.ok()) submitted_.push_back(operation);
  // Before ProgressRole::on_submitted() looks whether a burst has begun; end_burst() does both in
  // the other order.
  has_news_.store(true);
  if (in_flight_.fetch_add(1) > 0)
    return Added{operation, false, operation->submitted - first_submitted()};
  fabric_.set_interest(true);
  first_submitted_.store(operation->submitted.time_since_epoch().count(),
                         std::memory_order_relaxed);
  return Added{operation, true, Duration::zero()};
}

Result<std::string> SubmitQueue::option(const std::string& name) const {
  MutexLock lock(mutex_);
  return options_.get(name);
}

Status SubmitQueue::set_option(const std::string& name, const std::string& value) {
  const std::optional<size_t> index = find_option(name);
  if (!index) return Status(Code::kNotFound, "option \"" + name + "\" does not exist");
  if (!changes_at_run_time(*index)) {
    return Status(Code::kInvalidState, "option \"" + name + "\" can be set at start-up only");
  }
  MutexLock lock(mutex_);
  HVD_TRY(options_.set(name, value));
  default_timeout_.store(options_.op_timeout, std::memory_order_relaxed);
  options_changed_ = true;
  has_news_.store(true, std::memory_order_release);
  return {};
}

void SubmitQueue::append_records(std::vector<FlightRecorder::Entry>* entries) const {
  const auto first = static_cast<ptrdiff_t>(entries->size());
  MutexLock lock(mutex_);
  for (const Operation* o = all_.first(); o != nullptr; o = o->next_in_flight) {
    FlightRecorder::Entry& entry = entries->emplace_back();
    entry.operation = record_of(*o);
    entry.set = o->set->id.load();
    entry.name = o->name();
  }
  std::reverse(entries->begin() + first, entries->end());
}

Status SubmitQueue::status() const {
  MutexLock lock(mutex_);
  return closed_.ok() ? world_closed_ : closed_;
}

bool SubmitQueue::take(std::vector<Operation*>* batch, Options* options) {
  MutexLock lock(mutex_);
  batch->swap(submitted_);
  has_news_.store(false, std::memory_order_release);
  if (!options_changed_) return false;
  *options = options_;
  options_changed_ = false;
  return true;
}

std::vector<Operation*> SubmitQueue::take_deferred() {
  std::vector<Operation*> taken;
  MutexLock lock(mutex_);
  for (auto& [set, waiting] : deferred_) taken.insert(taken.end(), waiting.begin(), waiting.end());
  deferred_.clear();
  return taken;
}

void SubmitQueue::remove(Operation& operation, bool went_well) {
  MutexLock lock(mutex_);
  ProcessSet& set = *operation.set;
  give_name_back(operation);
  if (operation.kind == OpKind::kJoin) end_join(set, went_well);
  // may find no memory, so the operation stays in the list until then
  if (!deferred_.empty()) release_deferred(set);
  unlist(operation);
}

void SubmitQueue::release_deferred(ProcessSet& set) {
  const auto found = deferred_.find(&set);
  if (found == deferred_.end()) return;
  std::deque<Operation*>& waiting = found->second;
  while (!waiting.empty() && take_place(set, *waiting.front())) {
    submitted_.push_back(waiting.front());
    waiting.pop_front();
    has_news_.store(true, std::memory_order_release);
  }
  if (waiting.empty()) deferred_.erase(found);
}

void SubmitQueue::give_name_back(Operation& operation) noexcept {
  ProcessSet& set = *operation.set;
  const auto found = set.in_flight.find(place_of(operation, options_.names_by_kind));
  if (found != set.in_flight.end() && found->second == &operation)
    set.unused_names.push_back(set.in_flight.extract(found));
}

void SubmitQueue::unlist(Operation& operation) noexcept {
  all_.remove(operation);
  if (in_flight_.fetch_sub(1) == 1) fabric_.set_interest(false);
}

bool SubmitQueue::leave(Status why) {
  MutexLock lock(mutex_);
  leaving_ = closed_.ok();
  if (leaving_) closed_ = std::move(why);
  return leaving_;
}

bool SubmitQueue::ends_operations(const Status& why) const {
  MutexLock lock(mutex_);
  return closed_.ok() || (leaving_ && why.code() == Code::kPeerLost);
}

void SubmitQueue::close(Status why) {
  MutexLock lock(mutex_);
  closed_ = std::move(why);
}

void SubmitQueue::close_world(const Status& why) {
  MutexLock lock(mutex_);
  world_closed_ = why;
}

void SubmitQueue::abandon(Status why) noexcept {
  MutexLock lock(mutex_);
  submitted_.clear();
  deferred_.clear();
  has_news_.store(false);
  if (closed_.ok() || closed_.code() == Code::kShutDown) closed_ = std::move(why);
}

Operation* SubmitQueue::remove_any(Status* worded) noexcept {
  MutexLock lock(mutex_);
  Operation* const operation = all_.first();
  if (operation == nullptr) return nullptr;
  try {
    *worded = operation->worded(closed_);
  } catch (...) {
    *worded = Status::out_of_memory(Code::kIo);  // the short text has to do
  }
  give_name_back(*operation);
  unlist(*operation);
  return operation;
}

}  // namespace hvd::engine
