// SPDX-License-Identifier: Apache-2.0
// Engine: start, end, messages, failure, settings.
#include "engine/engine.h"

#include <algorithm>
#include <cerrno>

#include "base/cores.h"
#include "base/threads.h"

namespace hvd::engine {

namespace {

// For the goodbye when the caller of shutdown gave no time at all: queues are flushed to peers that read.
constexpr Duration kGoodbyeTime = std::chrono::seconds(2);
// Ended operations kept for their memory; a training step can have more than a thousand in flight.
constexpr size_t kPooledOperations = 2048;

Status has_shut_down() noexcept {
  try {
    return Status(Code::kShutDown, "this rank has shut down");
  } catch (...) {
    return Status::out_of_memory(Code::kShutDown);
  }
}

}  // namespace

Engine::Engine(EngineParts parts)
    : options_(parts.options),
      log_(std::move(parts.log)),
      faults_(std::move(parts.faults)),
      fabric_(std::move(parts.fabric)),
      reduce_(std::move(parts.reduce)),
      devices_(std::move(parts.devices)),
      device_comms_(std::move(parts.device_comms)),
      topology_(fabric_->topology()),
      backoff_(BackoffPolicy::choose(topology_.local_size(), cores_.count(), topology_.host_count(), options_.spin_us)),
      home_(HomeCore::wanted(topology_.local_size(), cores_), cores_),
      shadow_options_(parts.options),
      default_timeout_(parts.options.op_timeout) {
  time_ = now();
  pool_.reserve(kPooledOperations);
  const int me = topology_.rank();
  const std::string fact = topology_.describe(me) + " has no memory left for its part";
  no_memory_ = Status(Code::kIo, fact).with_rank(me).with_errno(ENOMEM);
  negotiation::put_head(no_memory_news_, {negotiation::MessageType::kAbort, 0});
  negotiation::put_status(no_memory_news_, Status(Code::kPeerLost, fact).with_rank(me));
  start_limit_ = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options_.start_timeout));
}

Engine::~Engine() {
  if (fork_guard_.forked()) {
    if (thread_.joinable()) thread_.detach();  // the thread lives in the parent only
    return;
  }
  stopping_.store(true);
  if (!thread_.joinable()) return;
  fabric_->interrupt();
  ensure_standby_ends();
  thread_.join();
}

Status Engine::start(std::unique_ptr<backend::CommFactory> factory, Time deadline) {
  factory_ = std::move(factory);
  world_ = std::make_shared<ProcessSet>();
  world_->engine = weak_from_this();
  world_->id.store(0);
  world_->me = topology_.rank();
  for (int rank = 0; rank < topology_.size(); ++rank) world_->ranks.push_back(rank);
  if (Status started = start_thread([this] { run_thread(); }, "the engine's thread", &thread_); !started.ok()) {
    tell_of_start(started);
    return started;
  }
  Result<std::unique_ptr<backend::Comm>> comm = factory_->open(0, world_->ranks, deadline);
  if (!comm.ok()) {
    // A lost rank is the reason, whichever rank was waited for; but not where all have agreed on another reason and left.
    const Status trouble = status();
    const Code code = comm.status().code();
    const bool waited = code == Code::kPeerLost || code == Code::kTimeout || code == Code::kIo;
    if (!trouble.ok() && waited) return trouble;
    tell_of_start(comm.status());
    return comm.status();
  }
  return attach(world_, std::move(comm).value());
}

Status Engine::shutdown(Time deadline) {
  MutexLock once(shutdown_mutex_);
  if (shut_down_) return {};
  {
    Guest guest(*this);
    attempt([this, deadline]() HVD_REQUIRES(role_) {
      say_goodbye(deadline);
      return true;
    });
    for (const auto& [serial, set] : sets_) set->collect_metrics();
    for (const auto& [serial, set] : sets_) set->begin_end(true);
    sets_.clear();
    leaving_.clear();
    fabric_->leave(std::max(std::min(deadline, now() + kGoodbyeTime), now() + std::chrono::milliseconds(100)));
    stopping_.store(true);
  }
  fabric_->interrupt();
  {
    MutexLock lock(handover_mutex_);
    handover_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  shut_down_ = true;
  return {};
}

// The operations that this rank has begun end, the others learn that this rank leaves, and the operations that are left fail.
void Engine::say_goodbye(Time deadline) {
  bool working = false;
  {
    MutexLock lock(submit_mutex_);
    working = status_.ok();
    leaving_job_ = working;
    if (working) status_ = has_shut_down();
  }
  // A failure that nobody has applied yet comes first: the others must hear of it, and not of a rank that leaves in order.
  if (!breaking_.ok()) {
    working = working && !breaking_counts_;
    apply_break();
  }
  const auto moving = [this]() HVD_REQUIRES(role_) {
    return std::any_of(sets_.begin(), sets_.end(), [](const auto& set) { return set.second->data_moving(); });
  };
  Backoff backoff(backoff_, crowd_);
  while (working && moving() && now() < deadline) {
    if (progress())
      backoff.reset();
    else
      backoff.pause();
  }
  if (working && moving()) {
    const int me = topology_.rank();
    tell_all(Status(Code::kShutDown, topology_.describe(me) + " shut down with data under way").with_rank(me));
  } else if (working) {
    for (const auto& [serial, set] : sets_) set->bye();
  }
  const Status why = has_shut_down();
  // The operations that wait for a place fail first: operations that end from here on would release the waiting ones to sets
  // that nobody serves any more.
  fail_deferred(why);
  accept();
  fail_sets(why, working && !moving());
}

void Engine::stop() { completions_.stop(); }

Status Engine::status() const {
  MutexLock lock(submit_mutex_);
  return status_.ok() ? departure_ : status_;
}

void Engine::send(int rank, const Bytes& message, bool urgent, std::span<const std::byte> payload) {
  if (rank == topology_.rank()) return;
  count(metrics_.messages_sent);
  count(metrics_.bytes_control_sent, message.size());
  fabric_->send(rank, message, urgent, payload);
}

void Engine::on_message(int from, std::span<const std::byte> bytes) {
  count(metrics_.messages_received);
  if (!breaking_.ok() && breaking_counts_) return;  // operations are to end with the pending failure, and not with a later one
  ByteReader in(bytes);
  negotiation::MessageHead head;
  if (!negotiation::get_head(in, &head)) {
    break_context(Status(Code::kInternal, topology_.describe(from) + " sent a malformed message").with_rank(from));
    return;
  }
  if (head.type == negotiation::MessageType::kAbort || head.type == negotiation::MessageType::kStalled) {
    Status why;
    if (!negotiation::get_status(in, &why)) {
      why = Status(Code::kInternal, topology_.describe(from) + " sent a malformed message").with_rank(from);
    }
    begin_break(why, head.type, from);
    return;
  }
  if (const auto found = sets_.find(head.set); found != sets_.end()) {
    found->second->on_message(from, head.type, in);
  } else if (head.set >= next_serial_ || opening_.count(head.set) > 0) {
    early_[head.set].emplace_back(from, Bytes(bytes.begin(), bytes.end()));
  }
  // Otherwise the set has been destroyed here: a message that is late for the set is of no use any more.
}

void Engine::on_peer_lost(int rank, const std::string& cause) {
  break_context(Status(Code::kPeerLost, topology_.describe(rank) + " " + cause).with_rank(rank));
}

void Engine::begin_break(const Status& why, negotiation::MessageType as, int by) {
  if (!breaking_.ok()) return;
  breaking_ = why;
  breaking_as_ = as;
  breaking_by_ = by;
  // A caller that learns of the failure from an operation that ends now may shut down before the failure is applied. The others
  // must be told all the same.
  MutexLock lock(submit_mutex_);
  breaking_counts_ = status_.ok() || (leaving_job_ && why.code() == Code::kPeerLost);
}

// The failure as this rank's operations are told of it. If the others give up this rank, this rank may have stood still for
// long, and what this rank sees next of the others is no fault of theirs.
Status Engine::breaking_here() const {
  if (breaking_by_ < 0 || breaking_.rank() != topology_.rank()) return breaking_;
  const std::string text = topology_.describe(breaking_by_) + " gave this rank up: " + breaking_.message();
  return Status(breaking_.code(), text).with_rank(breaking_.rank());
}

void Engine::apply_break() {
  const Status told = breaking_;
  const Status why = breaking_here();
  breaking_ = {};
  {
    MutexLock lock(submit_mutex_);
    if (!breaking_counts_) return;  // the first cause stands
    status_ = why;
  }
  faults_->note(why);
  log_->write(LogLevel::kError, "engine", why.message());
  tell_all(told, breaking_as_);
  if (breaking_as_ == negotiation::MessageType::kStalled) {
    for (const auto& [serial, set] : sets_) set->fail_stalled();
  }
  fail_sets(why, false);
  fail_deferred(why);
}

void Engine::fail_sets(const Status& why, bool in_order) {
  if (!in_order) {
    for (const auto& [serial, set] : sets_) set->begin_end(false);
    for (const auto& one : leaving_) one->begin_end(false);
  }
  for (const auto& [serial, set] : sets_) set->fail_all(why, in_order);
}

// The rank that `why` names is told, too: that rank may live, and would wait for the others for ever.
void Engine::tell_all(const Status& why, negotiation::MessageType as) {
  Bytes message;
  negotiation::put_head(message, {as, 0});
  negotiation::put_status(message, why);
  for (int rank = 0; rank < topology_.size(); ++rank) send(rank, message, true);
}

// Tells the others of a failure to start that concerns this rank alone: the others may have started and wait for this rank in
// an operation.
void Engine::tell_of_start(const Status& why) {
  const int me = topology_.rank();
  if (why.rank() >= 0 && why.rank() != me) return;
  Guest guest(*this);
  tell_all(Status(Code::kPeerLost, topology_.describe(me) + " could not start: " + why.message()).with_rank(me));
}

void Engine::fail_deferred(const Status& why) {
  std::vector<Operation*> failing;
  {
    MutexLock lock(submit_mutex_);
    for (auto& [set, waiting] : deferred_) failing.insert(failing.end(), waiting.begin(), waiting.end());
    deferred_.clear();
  }
  for (Operation* operation : failing) complete(operation, operation->worded(why));
}

void Engine::on_set_closed(const ProcessSet& set, const Status& why) {
  if (set.serial != 0) return;
  MutexLock lock(submit_mutex_);
  departure_ = why;
}

void Engine::warn(const std::string& text) { log_->write(LogLevel::kWarn, "stall", text); }

std::string Engine::whereabouts(const SetEngine& asked, std::string_view key) {
  const SetEngine* best = nullptr;
  const Operation* waits = nullptr;
  for (const auto& [serial, set] : sets_) {
    const Operation* other = set->wait_of(key);
    if (other == nullptr || (waits != nullptr && !tells_more(*other, *waits, key))) continue;
    waits = other;
    best = set.get();
  }
  if (waits == nullptr) return {};
  std::string text = (waits->awaited.load(std::memory_order_relaxed) ? "waits in " : "has begun ") + waits->subject();
  if (best == &asked) return text;
  return text + " of process set " + std::to_string(best->set()->id.load());
}

void Engine::answer_by(Time at) {
  tick_by(at);
  owes_answers_.store(true, std::memory_order_relaxed);
}

Result<std::string> Engine::option(const std::string& name) {
  MutexLock lock(submit_mutex_);
  return shadow_options_.get(name);
}

Status Engine::set_option(const std::string& name, const std::string& value) {
  const std::optional<size_t> index = find_option(name);
  if (!index) return Status(Code::kNotFound, "option \"" + name + "\" does not exist");
  if (!changes_at_run_time(*index)) {
    return Status(Code::kInvalidState, "option \"" + name + "\" can be set at start-up only");
  }
  {
    MutexLock lock(submit_mutex_);
    HVD_TRY(shadow_options_.set(name, value));
    default_timeout_.store(shadow_options_.op_timeout, std::memory_order_relaxed);
    options_changed_ = true;
    has_submitted_.store(true, std::memory_order_release);
  }
  announce();
  return {};
}

void Engine::snapshot(std::vector<std::pair<const MetricRow*, double>>* out) {
  if (guests_.load() == 0 && role_.try_lock()) {
    MutexLock role(role_, std::adopt_lock);
    for (const auto& [serial, set] : sets_) set->collect_metrics();
    role.unlock();
    announce();
  }
  for (const MetricRow& row : kMetricRows) out->emplace_back(&row, static_cast<double>(row.value(metrics_)));
}

}  // namespace hvd::engine
