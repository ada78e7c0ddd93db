// SPDX-License-Identifier: Apache-2.0
// Engine: start, end, and the calls of users.
#include "engine/engine.h"

namespace hvd::engine {

namespace {

std::unique_ptr<FlightRecorder> make_recorder(const Options& options, const Topology& topology) {
  if (!options.flight_recorder) return nullptr;
  return std::make_unique<FlightRecorder>(options.flight_file, topology.rank(), topology.size());
}

}  // namespace

Engine::Engine(EngineParts parts)
    : log_(std::move(parts.log)),
      faults_(std::move(parts.faults)),
      fabric_(std::move(parts.fabric)),
      devices_(std::move(parts.devices)),
      device_comms_(std::move(parts.device_comms)),
      tell_of_set_(std::move(parts.tell_of_set)),
      topology_(fabric_->topology()),
      start_limit_(from_seconds(parts.options.start_timeout)),
      recorder_(make_recorder(parts.options, topology_)),
      placement_(parts.options.thread_placement,
                 ThreadPlacement::filled(topology_.local_size(), cores_), cores_),
      queue_(parts.options, *fabric_, *faults_, recorder_.get()),
      engine_(parts.options,
              {*log_, *faults_, *fabric_, device_comms_.get(), metrics_, queue_, directory_,
               completions_, placement_, alarm_, recorder_.get(), histograms_}),
      role_(BackoffPolicy::choose(topology_.local_size(), cores_.count(), topology_.host_count(),
                                  parts.options.spin_us),
            {engine_, queue_, *fabric_, completions_, placement_, alarm_, metrics_, fork_guard_}) {
  count(metrics_.restarts, parts.restarts);
}

Status Engine::start(std::unique_ptr<backend::CommFactory> factory, Time deadline) {
  factory_ = std::move(factory);
  if (recorder_ && !recorder_->problem().ok())
    log_->write(LogLevel::kInfo, "recorder", recorder_->problem().message());
  world_ = std::make_shared<ProcessSet>();
  world_->engine = weak_from_this();
  world_->id.store(0);
  world_->me = topology_.rank();
  for (int rank = 0; rank < topology_.size(); ++rank) world_->ranks.push_back(rank);
  if (Status started = role_.start(); !started.ok()) {
    tell_of_start(started);
    return started;
  }
  Result<std::unique_ptr<backend::Comm>> comm = factory_->open(0, world_->ranks, deadline);
  if (!comm.ok()) {
    // A lost rank is the reason, whichever rank was waited for; but not where all have agreed on
    // another reason and left.
    const Status trouble = status();
    const Code code = comm.status().code();
    const bool waited = code == Code::kPeerLost || code == Code::kTimeout || code == Code::kIo;
    if (!trouble.ok() && waited) return trouble;
    tell_of_start(comm.status());
    return comm.status();
  }
  return attach(world_, std::move(comm).value());
}

void Engine::tell_of_start(const Status& why) {
  // the others know, or will find out, what has happened to it
  if (why.rank() >= 0 && why.rank() != topology_.rank()) return;
  const ProgressRole::Guest guest(role_);
  engine_.tell_of_start(why);
}

Status Engine::shutdown(Time deadline) {
  MutexLock once(shutdown_mutex_);
  if (shut_down_) return {};
  {
    const ProgressRole::Guest guest(role_);
    engine_.leave(deadline, role_.backoff());
    role_.stop();
  }
  role_.join();
  shut_down_ = true;
  return {};
}

void Engine::recycle(std::unique_ptr<Operation> operation) {
  if (fork_guard_.forked()) return;  // the parent may have held the lock
  pool_.give(std::move(operation));
}

Result<Operation*> Engine::submit(std::unique_ptr<Operation> operation) {
  if (fork_guard_.forked()) {
    return Status(Code::kInvalidState,
                  operation->subject() + ": this context belongs to the parent of this process");
  }
  operation->submitted = now();
  const Result<SubmitQueue::Added> added = queue_.add(std::move(operation));
  if (!added.ok()) return added.status();
  count(metrics_.operations_submitted);
  role_.on_submitted(added.value());
  return added.value().operation;
}

Status Engine::wait(Operation& operation, Time deadline) {
  if (operation.done()) return {};
  if (fork_guard_.forked()) {
    return Status(Code::kInvalidState, operation.subject_so_far() +
                                           ": this context belongs to the parent of this process");
  }
  if (completions_.on_callback_thread()) {
    return Status(Code::kWouldDeadlock, operation.subject_so_far() + ": waiting inside a callback");
  }
  return role_.wait(operation, deadline);
}

Status Engine::test(Operation& operation) {
  if (!operation.done()) role_.nudge();
  return operation.done() ? operation.result() : Status::pending();
}

Status Engine::then(Operation& operation, Operation::Callback callback, void* user_data) {
  HVD_TRY(completions_.prepare_calls());
  // Once the callback is registered it may run and free the operation, and with it the last
  // reference to the engine.
  const std::shared_ptr<Engine> alive = shared_from_this();
  switch (operation.set_callback(callback, user_data)) {
    case Operation::Registered::kRefused:
      return Status(Code::kInvalidState, operation.subject_so_far() + ": has a callback already");
    case Operation::Registered::kNow: break;
    case Operation::Registered::kAfterEnd:
      operation.add_reference();
      completions_.call(callback, user_data, &operation);
      break;
  }
  role_.ensure_driver();
  return {};
}

Status Engine::set_option(const std::string& name, const std::string& value) {
  HVD_TRY(queue_.set_option(name, value));
  role_.announce();
  return {};
}

void Engine::snapshot(std::vector<std::pair<const MetricRow*, double>>* out) {
  role_.collect_metrics();
  for (const MetricRow& row : kMetricRows)
    out->emplace_back(&row, static_cast<double>(row.value(metrics_)));
}

Result<std::vector<FlightRecorder::Entry>> Engine::records(uint64_t after) const {
  if (!recorder_)
    return Status(Code::kInvalidState, "records: the option flight_recorder is 0 on this rank");
  std::vector<FlightRecorder::Entry> entries = recorder_->since(after);
  queue_.append_records(&entries);
  return entries;
}

int Engine::rank_of(int set, uint32_t member) const {
  const std::shared_ptr<ProcessSet> found = directory_.find(set);
  return found && member < found->ranks.size() ? found->ranks[member] : -1;
}

// The end of a context in the middle of something all ranks have agreed on; called inside a
// handler.
Status Engine::collapse() noexcept {
  const ProgressRole::Guest guest(role_);
  engine_.collapse();
  try {
    return status();
  } catch (...) {
    return Status::out_of_memory(Code::kIo);
  }
}

}  // namespace hvd::engine
