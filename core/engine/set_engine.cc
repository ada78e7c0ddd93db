// SPDX-License-Identifier: Apache-2.0
#include "engine/set_engine.h"

#include <algorithm>
#include <cstring>

#include "engine/eager_reduction.h"

namespace hvd::engine {

namespace {

// While this many groups are planned and not done, newly ready operations wait to be planned, and
// fused, together.
constexpr size_t kPlannedAhead = 2;

}  // namespace

SetEngine::SetEngine(SetHost& host, std::shared_ptr<ProcessSet> set,
                     std::unique_ptr<backend::Comm> comm,
                     std::unique_ptr<backend::DeviceComm> split)
    : host_(host),
      set_(std::move(set)),
      comm_(std::move(comm)),
      plane_(set_->size(), set_->me, host.device_around(*set_), std::move(split)),
      member_(set_->serial, static_cast<size_t>(host.options().cache_capacity), *this) {
  if (set_->me != 0) return;
  negotiation::CoordinatorSettings settings;
  settings.set = set_->serial;
  settings.ranks = set_->ranks;
  settings.hosts = set_->hosts;
  settings.cache_capacity = static_cast<size_t>(host.options().cache_capacity);
  settings.look_ahead = host.options().look_ahead;
  settings.eager_exchange = set_->eager.exchange;
  settings.reduce = reduce_eagerly;
  if (host.recorder() != nullptr) {
    settings.arrivals = std::make_shared<negotiation::Arrivals>(set_->ranks.size());
    set_->arrivals.store(settings.arrivals);
  }
  settings.describe = [&host](int rank) { return host.describe(rank); };
  negotiation::Coordinator::Out& out = *this;
  coordinator_ = std::make_unique<negotiation::Coordinator>(std::move(settings), out);
  if (plane_.wanted()) coordinator_->set_device_path(negotiation::Path::kMeet);
  apply_options();
}

void SetEngine::apply_options() {
  if (!coordinator_) return;
  coordinator_->set_fusion_threshold(host_.options().fusion_threshold);
  coordinator_->set_cycle_time(from_seconds(host_.options().cycle_time / 1000));
}

int SetEngine::member_of(int rank) const {
  const auto found = std::lower_bound(set_->ranks.begin(), set_->ranks.end(), rank);
  return found != set_->ranks.end() && *found == rank
             ? static_cast<int>(found - set_->ranks.begin())
             : -1;
}

void SetEngine::submit(Operation* operation) {
  if (!closed_.ok()) {
    host_.complete(operation, operation->worded(closed_));
    return;
  }
  if (unused_nodes_.empty()) unused_nodes_.push_back(nullptr);
  waiting_.splice(waiting_.end(), unused_nodes_, unused_nodes_.begin());
  waiting_.back() = operation;
  operation->place = std::prev(waiting_.end());
  negotiation::Submission submission;
  submission.token = operation;
  submission.name = operation->key;
  submission.exclusive = !host_.options().names_by_kind;
  submission.signature = operation->signature;
  submission.print = operation->print;
  submission.variable = operation->variable;
  submission.payload = operation->payload;
  submission.eager = operation->eager;
  submission.priority = operation->priority;
  member_.submit(submission);
}

void SetEngine::on_message(int from, negotiation::MessageType type, ByteReader in) {
  if (dead_) return;
  const int member = member_of(from);
  Status status;
  if (member < 0) {
    status = Status(Code::kInternal, "message from a rank outside the process set");
  } else if (negotiation::for_coordinator(type)) {
    if (!coordinator_) {
      status = Status(Code::kInternal, "message for a coordinator that lives elsewhere");
    } else {
      status = coordinator_->on_message(member, type, in, host_.time());
      if (type == negotiation::MessageType::kQuery && owes_answer())
        host_.answer_by(coordinator_->tick(host_.time()));
    }
  } else if (member != 0) {
    status = Status(Code::kInternal, "plan from a rank that is not the coordinator");
  } else {
    status = member_.on_message(type, in);
  }
  if (status.ok()) return;
  host_.break_context(
      Status(status.code(), host_.describe(from) + " sent: " + status.message()).with_rank(from));
}

void SetEngine::to_coordinator(const Bytes& message, bool urgent,
                               std::span<const std::byte> payload) {
  if (!coordinator_) {
    host_.send(set_->ranks[0], message, urgent, payload);
    return;
  }
  ByteReader in(message, payload);
  negotiation::MessageHead head;
  negotiation::get_head(in, &head);
  on_message(set_->ranks[0], head.type, in);
}

void SetEngine::to_member(int member, const Bytes& message, bool urgent,
                          std::span<const std::byte> payload) {
  if (member != set_->me) {
    host_.send(set_->ranks[static_cast<size_t>(member)], message, urgent, payload);
    return;
  }
  ByteReader in(message, payload);
  negotiation::MessageHead head;
  negotiation::get_head(in, &head);
  on_message(set_->ranks[0], head.type, in);
}

void SetEngine::mark(void* token, uint32_t& mark) {
  FlightRecorder* const recorder = host_.recorder();
  if (recorder == nullptr) return;
  Operation& operation = *static_cast<Operation*>(token);
  recorder->label(mark, set_->id.load(std::memory_order_relaxed), operation.name());
  recorder->prepare();
  operation.label = mark;
}

void SetEngine::run(const negotiation::PlanGroup& group, std::span<void* const> tokens) {
  count(host_.metrics().plans_executed);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == nullptr) continue;
    Operation* const operation = static_cast<Operation*>(tokens[i]);
    operation->agreement = group.entries[i].agreement;
    unlist(operation);
  }
  if (tokens[0] != nullptr) {
    Operation* operation = static_cast<Operation*>(tokens[0]);
    if (operation->kind >= OpKind::kCreateSet) {
      run_set_operation(operation);
      return;
    }
  }
  std::unique_ptr<Execution> job = fresh_execution();
  if (Status status = job->prepare(group, tokens, plane_); !status.ok()) {
    status = named(status.with_rank(own_rank()));
    host_.break_context(status);
    for (Operation* operation : job->operations()) host_.complete(operation, status);
    return;
  }
  jobs_.push_back(std::move(job));
}

bool SetEngine::may_issue() const { return jobs_.size() + (running_ ? 1 : 0) < kPlannedAhead; }

Time SetEngine::held_until() const {
  return coordinator_ && may_issue() ? coordinator_->held_until() : kNever;
}

bool SetEngine::progress(Time now) {
  if (dead_) return false;
  bool moved = false;
  if (coordinator_ && coordinator_->has_ready() && may_issue()) {
    coordinator_->issue(now);
    moved = !coordinator_->has_ready();
  }
  const bool data = run_data();
  data_moved_ = data_moved_ || data;
  return data || moved;
}

void SetEngine::finish(void* token, std::span<const std::byte> result,
                       const negotiation::Agreement& agreement) {
  Operation* operation = static_cast<Operation*>(token);
  operation->agreement = agreement;
  unlist(operation);
  size_t at = 0;
  for (const OpTensor& tensor : operation->tensors) {
    const size_t bytes = tensor.count() * dtype_size(tensor.dtype);
    if (at + bytes > result.size()) {
      host_.complete(operation,
                     Status(Code::kInternal, operation->subject() + ": result is too short"));
      return;
    }
    if (bytes > 0 && tensor.out != result.data() + at)
      std::memcpy(tensor.out, result.data() + at, bytes);
    at += bytes;
  }
  count(host_.metrics().eager_operations);
  host_.metrics().bytes_reduced += at;
  count(host_.metrics().bytes_by_message, at);
  host_.complete(operation, {});
}

void SetEngine::finish_with(void* token, std::span<const std::byte> payload, uint64_t use) {
  const Operation& operation = *static_cast<Operation*>(token);
  if (payload.size() != operation.payload.size() ||
      !negotiation::decode(operation.signature, &exchanged_signature_)) {
    fail(token, Status(Code::kInternal, operation.subject() + ": offered " +
                                            std::to_string(payload.size()) + " bytes for " +
                                            std::to_string(operation.payload.size())));
    return;
  }
  const std::byte* sources[] = {payload.data(), operation.payload.data()};
  const bool one = operation.tensors.size() == 1;
  if (!one) result_.resize(payload.size());
  const std::span<std::byte> out(
      one ? static_cast<std::byte*>(operation.tensors[0].out) : result_.data(), payload.size());
  reduce_eagerly(exchanged_signature_, set_->hosts, sources, out);
  // only the coordinator knows who came last
  finish(token, out, {.use = use});
}

void SetEngine::fail(void* token, const Status& why) {
  Operation* operation = static_cast<Operation*>(token);
  unlist(operation);
  host_.complete(operation, why);
}

void SetEngine::unlist(Operation* operation) {
  unused_nodes_.splice(unused_nodes_.begin(), waiting_, operation->place);
}

void SetEngine::close(const Status& why) {
  closed_ = why;
  host_.on_set_closed(*set_, why);
  fail_unplanned(why);
}

void SetEngine::fail_unplanned(const Status& why) {
  std::list<Operation*> failing;
  failing.swap(waiting_);
  for (Operation* operation : failing) {
    host_.complete(operation, operation->worded(why));
  }
}

void SetEngine::fail_all(const Status& why, bool in_order) {
  if (closed_.ok()) closed_ = why;
  dead_ = true;
  std::deque<std::unique_ptr<Execution>> jobs;
  jobs.swap(jobs_);
  if (running_) jobs.push_front(std::move(running_));
  if (comm_) comm_->abort();
  if (!in_order) plane_.abort();
  for (const auto& job : jobs) {
    for (Operation* operation : job->operations()) {
      host_.complete(operation, operation->worded(why));
    }
  }
  fail_unplanned(why);
}

void SetEngine::abandon() noexcept {
  dead_ = true;
  if (comm_) comm_->abort();
  plane_.abort();
  plane_.begin_end(false);
  running_.reset();
  jobs_.clear();
  waiting_.clear();
}

// The state machines count for themselves; here their new counts are added to the context's
// counters.
void SetEngine::collect_metrics() {
  Metrics& metrics = host_.metrics();
  if (coordinator_) {
    const negotiation::CoordinatorCounters& counters = coordinator_->counters();
    count(metrics.mismatches, counters.mismatches - counted_.mismatches);
    count(metrics.timeouts, counters.timeouts - counted_.timeouts);
    count(metrics.cache_evictions, counters.evictions - counted_.evictions);
    count(metrics.fused_operations, counters.fused_operations - counted_.fused_operations);
    count(metrics.fused_tensors, counters.fused_tensors - counted_.fused_tensors);
    counted_ = counters;
  }
  count(metrics.cache_hits, member_.hits() - counted_hits_);
  count(metrics.cache_misses, member_.misses() - counted_misses_);
  counted_hits_ = member_.hits();
  counted_misses_ = member_.misses();
}

void SetEngine::bye() {
  if (coordinator_) {
    coordinator_->close(Status(Code::kShutDown, host_.describe(set_->ranks[0]) + " shut down")
                            .with_rank(set_->ranks[0]));
  } else {
    member_.bye();
  }
}

int SetEngine::straggler() const {
  if (!running_) return -1;
  const int member = meeting() ? plane_.waiting_for(*comm_) : running_->waiting_for(*comm_);
  return member < 0 || member == set_->me ? -1 : set_->ranks[static_cast<size_t>(member)];
}

int SetEngine::undecided_with() const {
  return waiting_.empty() || set_->me <= 0 ? -1 : set_->ranks[0];
}

}  // namespace hvd::engine
