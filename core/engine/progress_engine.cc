// SPDX-License-Identifier: Apache-2.0
#include "engine/progress_engine.h"

#include <algorithm>

#include "engine/eager.h"

namespace hvd::engine {

namespace {

// Looking at the clock, at deadlines and at who is late happens every so many rounds without
// progress.
constexpr unsigned kRoundsPerLook = 64;
// Ticks come this often while operations are in flight, for deadlines and stall reports.
constexpr Duration kTickEvery = std::chrono::milliseconds(100);
constexpr Duration kPokeAfter = std::chrono::microseconds(30);
constexpr Duration kPokeAgain = std::chrono::microseconds(200);

}  // namespace

ProgressEngine::ProgressEngine(const Options& options, const Around& around)
    : log_(around.log),
      faults_(around.faults),
      fabric_(around.fabric),
      device_comms_(around.device_comms),
      metrics_(around.metrics),
      queue_(around.queue),
      directory_(around.directory),
      completions_(around.completions),
      placement_(around.placement),
      alarm_(around.alarm),
      recorder_(around.recorder),
      observations_(around.metrics, around.histograms),
      topology_(around.fabric.topology()),
      options_(options),
      failure_(topology_),
      time_(now()) {}

bool ProgressEngine::progress() noexcept {
  return attempt([this] { return round(); });
}

bool ProgressEngine::round() {
  bool moved = accept();
  placement_.go_there();
  moved = fabric_.poll(*this) || moved;
  for (const auto& [serial, set] : sets_) {
    moved = set->progress(time_) || moved;
    moved = (!failure_.pending() && set->end_withdrawn()) || moved;
    if (const Time at = set->held_until(); at < next_tick_) tick_by(at);
  }
  if (sets_.ending()) sets_.apply_ended();
  if (failure_.pending()) apply_break();
  if (moved || ++rounds_ % kRoundsPerLook == 0) time_ = now();
  if (time_ >= next_tick_) tick();
  return moved;
}

bool ProgressEngine::announce() noexcept {
  time_ = now();
  const Time tick = next_tick_;
  attempt([this] { return accept(); });
  return next_tick_ < tick || look_needed();
}

bool ProgressEngine::look_needed() const {
  return failure_.pending() || sets_.ending() || fabric_.has_unsent() || sets_.must_plan();
}

bool ProgressEngine::accept() {
  if (!queue_.has_news()) return false;
  if (queue_.take(&accepted_, &options_)) sets_.apply_options();
  std::vector<Operation*> batch;
  batch.swap(accepted_);
  SetEngine* touched = nullptr;
  for (Operation* operation : batch) {
    SetEngine* const set = sets_.find(operation->set->serial);
    if (set == nullptr) {
      complete(operation, Status(Code::kCancelled,
                                 operation->subject() + ": the process set has been destroyed"));
      continue;
    }
    if (touched != nullptr && touched != set) touched->flush();
    touched = set;
    tick_by(operation->deadline);
    if (operation->staging) placement_.leave();
    // an eager exchange, say, may end the operation at once; the operation's waiter then frees it
    touched->submit(operation);
  }
  if (touched != nullptr) touched->flush();
  // Stall reports are due from the oldest operation on; the tick that finds none costs nothing.
  if (queue_.in_flight() > 0) tick_by(time_ + kTickEvery);
  batch.clear();
  accepted_.swap(batch);  // keeps the memory
  return true;
}

void ProgressEngine::tick() {
  next_tick_ = kNever;
  for (const auto& [serial, set] : sets_) {
    set->collect_metrics();
    next_tick_ = std::min(next_tick_, set->tick(time_));
  }
  record_wait();
  if (failure_.pending()) apply_break();
  alarm_.owe_answers(sets_.owes_answer());
  tick_by(queue_.in_flight() > 0 ? time_ + kTickEvery : kNever);
}

void ProgressEngine::record_wait() noexcept {
  if (recorder_ == nullptr) return;
  recorder_->add_clock();
  WaitRecord wait = sets_.record_of_wait();
  wait.in_flight = static_cast<uint64_t>(std::max<int64_t>(queue_.in_flight(), 0));
  if (wait.at != 0) recorder_->add(wait);
}

void ProgressEngine::tick_by(Time at) {
  next_tick_ = std::min(next_tick_, at);
  alarm_.set(next_tick_);
}

void ProgressEngine::answer_by(Time at) {
  tick_by(at);
  alarm_.owe_answers(true);
}

// A rank that computes does not look at memory; when others have waited a while for the rank's
// part, they wake its thread.
void ProgressEngine::poke_stragglers(Duration waited, Time* last_poke) {
  if (waited < kPokeAfter) return;
  const Time time = now();
  if (time - *last_poke < kPokeAgain) return;
  *last_poke = time;
  for (const auto& [serial, set] : sets_) {
    for (const int rank : {set->straggler(), set->undecided_with()}) {
      if (rank < 0 || rank == topology_.rank()) continue;
      fabric_.poke(rank);
      count(metrics_.pokes_sent);
    }
  }
}

void ProgressEngine::send(int rank, const Bytes& message, bool urgent,
                          std::span<const std::byte> payload) {
  if (rank == topology_.rank()) return;
  count(metrics_.messages_sent);
  count(metrics_.bytes_control_sent, message.size());
  fabric_.send(rank, message, urgent, payload);
}

void ProgressEngine::on_message(int from, std::span<const std::byte> bytes) {
  count(metrics_.messages_received);
  // operations are to end with that failure, and not with a later one
  if (failure_.pending() && failure_.counts()) return;
  ByteReader in(bytes);
  negotiation::MessageHead head;
  if (!negotiation::get_head(in, &head)) {
    break_context(Status(Code::kInternal, topology_.describe(from) + " sent a malformed message")
                      .with_rank(from));
    return;
  }
  if (head.type == negotiation::MessageType::kAbort ||
      head.type == negotiation::MessageType::kStalled) {
    Status why;
    if (!negotiation::get_status(in, &why)) {
      why = Status(Code::kInternal, topology_.describe(from) + " sent a malformed message")
                .with_rank(from);
    }
    begin_break(why, head.type, from);
    return;
  }
  if (SetEngine* const set = sets_.find(head.set)) {
    set->on_message(from, head.type, in);
  } else {
    sets_.keep_early(head.set, from, bytes);
  }
}

void ProgressEngine::on_peer_lost(int rank, const std::string& cause) {
  break_context(Status(Code::kPeerLost, topology_.describe(rank) + " " + cause).with_rank(rank));
}

void ProgressEngine::record(const Operation& operation, const Status& status) noexcept {
  const uint64_t ended = ticks();
  OperationRecord record = record_of(operation);
  if (status.ok()) observations_.operation(operation, record.bytes, ended);
  if (recorder_ == nullptr) return;
  record.use = operation.agreement.use;
  record.ended = ended;
  record.group = operation.group;
  record.label = operation.label;
  record.spread = operation.agreement.spread;
  record.last = static_cast<uint16_t>(std::min<uint32_t>(operation.agreement.last, UINT16_MAX));
  record.status = static_cast<int8_t>(status.code());
  recorder_->add(record);
}

void ProgressEngine::complete(Operation* operation, Status status) {
  record(*operation, status);
  queue_.remove(*operation, status.ok());
  announce_end(operation, std::move(status));
}

void ProgressEngine::announce_end(Operation* operation, Status status) noexcept {
  count(status.ok() ? metrics_.operations_completed : metrics_.operations_failed);
  if (!status.ok()) faults_.note(status);
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

// Comes in the order in which the coordinator of the world decided: the same on every rank.
void ProgressEngine::on_set_operation(Operation* operation) {
  if (operation->kind == OpKind::kCreateSet) {
    operation->numbers = {directory_.take_id(), static_cast<int32_t>(sets_.begin_opening())};
  } else if (operation->kind == OpKind::kDestroySet) {
    if (const auto set = directory_.remove(operation->numbers[0])) sets_.end_later(set->serial);
  }
}

void ProgressEngine::on_set_closed(const ProcessSet& set, const Status& why) {
  if (set.serial == 0) queue_.close_world(why);
}

Status ProgressEngine::attach(const std::shared_ptr<ProcessSet>& set,
                              std::unique_ptr<backend::Comm> comm,
                              std::unique_ptr<backend::DeviceComm> split) {
  attempt([&] {
    attach_here(set, std::move(comm), std::move(split));
    return true;
  });
  return failure_.collapsed() ? queue_.status() : Status();
}

void ProgressEngine::attach_here(const std::shared_ptr<ProcessSet>& set,
                                 std::unique_ptr<backend::Comm> comm,
                                 std::unique_ptr<backend::DeviceComm> split) {
  set->eager = eager_limit(options_.eager_bytes, topology_, set->ranks, fabric_.payloads_apart());
  if (options_.allreduce_by_hosts()) set->hosts = hosts_of(topology_, set->ranks);
  directory_.add(set);
  if (set->me < 0) {
    sets_.forget(set->serial);
    return;
  }
  SetHost& host = *this;
  const auto early = sets_.open(
      set->serial, std::make_unique<SetEngine>(host, set, std::move(comm), std::move(split)));
  for (const auto& [from, bytes] : early) on_message(from, bytes);
}

DevicePlane::Around ProgressEngine::device_around(const ProcessSet& set) {
  DevicePlane::Around around;
  around.factory = device_comms_;
  around.log = &log_;
  if (options_.gpu_operations == "nccl") around.regret = LogLevel::kWarn;
  around.describe = [this, &ranks = set.ranks](int member) {
    return topology_.describe(ranks[static_cast<size_t>(member)]);
  };
  around.limit = from_seconds(options_.start_timeout);
  return around;
}

}  // namespace hvd::engine
