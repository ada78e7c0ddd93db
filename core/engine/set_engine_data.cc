// SPDX-License-Identifier: Apache-2.0
// SetEngine: the agreed groups on the data plane, and the library that connects the members'
// devices.
#include "engine/set_engine.h"

namespace hvd::engine {

namespace {

// Executions kept for their memory.
constexpr size_t kUnusedExecutions = 3;
// How often a library's works that are under way are looked after.
constexpr Duration kWatchEvery = std::chrono::milliseconds(200);

}  // namespace

std::unique_ptr<Execution> SetEngine::fresh_execution() {
  if (unused_executions_.empty())
    return std::make_unique<Execution>(set_->size(), set_->me, set_->ranks);
  std::unique_ptr<Execution> unused = std::move(unused_executions_.back());
  unused_executions_.pop_back();
  return unused;
}

// The split comes before any operation of the new set is submitted. So nothing that earlier groups
// of this set wait for waits for the new set.
void SetEngine::run_set_operation(Operation* operation) {
  if (operation->confirms && plane_.wanted()) {
    jobs_.push_back(fresh_execution());
    jobs_.back()->prepare_split(*operation, plane_);
    return;
  }
  host_.on_set_operation(operation);
  host_.complete(operation, {});
}

bool SetEngine::run_data() {
  bool moved = false;
  for (;;) {
    if (!running_) {
      if (jobs_.empty()) return moved;
      running_ = std::move(jobs_.front());
      jobs_.pop_front();
      meter_.begin(running_->agreed(), comm_->effort());
    }
    meter_.before_poll();
    const backend::Progress progress = poll_running();
    meter_.after_poll(progress, [this] { return straggler(); });
    if (progress != backend::Progress::kDone) return moved || progress == backend::Progress::kMoved;
    end_running();
    moved = true;
  }
}

backend::Progress SetEngine::poll_running() {
  if (meeting()) {
    if (!plane_.begun()) plane_.begin(*running_->device(), *comm_);
    if (const backend::Progress met = plane_.meet(*comm_, host_.time());
        met != backend::Progress::kDone)
      return met;
    if (!plane_.failure().ok()) return running_->fail(plane_.failure());
    if (coordinator_ && plane_.comm() != nullptr)
      coordinator_->set_device_path(negotiation::Path::kDevice);
  }
  return running_->poll(*comm_);
}

bool SetEngine::must_poll() const {
  if (running_ == nullptr) return false;
  if (meeting()) return plane_.must_poll() || comm_->must_poll();
  return running_->direct() || comm_->must_poll();
}

void SetEngine::end_running() {
  std::unique_ptr<Execution> done = std::move(running_);
  const Status failure = named(done->failure());
  if (!failure.ok()) host_.break_context(failure);
  if (!done->operations().empty()) {
    const OpKind kind = done->operations()[0]->kind;
    Metrics& metrics = host_.metrics();
    count(reduces(kind) ? metrics.bytes_reduced : metrics.bytes_moved, done->bytes());
  }
  record_group(*done);
  for (size_t i = 0; i < done->operations().size(); ++i) {
    host_.complete(done->operations()[i], failure.ok() ? done->outcome(i) : failure);
  }
  if (unused_executions_.size() < kUnusedExecutions) unused_executions_.push_back(std::move(done));
}

void SetEngine::record_group(const Execution& done) {
  if (done.operations().empty()) return;
  const GroupRecord group = meter_.end(comm_->effort(), done.bytes(), done.operations().size());
  host_.observations().group(group, meter_.spent(), done.direct());
  FlightRecorder* const recorder = host_.recorder();
  const uint64_t number = recorder == nullptr ? 0 : recorder->add(group);
  for (Operation* operation : done.operations()) {
    operation->group = number;
    operation->agreed = group.agreed;
    operation->begun = group.begun;
  }
}

// Watches works that a library has been given: such works end on the device, when nobody waits for
// them here any more.
Time SetEngine::watch_device(Time now) {
  if (plane_.comm() == nullptr) return kNever;
  bool under_way = false;
  Status health = plane_.health(&under_way);
  if (!health.ok()) host_.break_context(named(health.with_rank(own_rank())));
  return health.ok() && under_way ? now + kWatchEvery : kNever;
}

// An error that only this rank can know of, in words for the others.
Status SetEngine::named(const Status& why) const {
  if (why.ok() || why.rank() != own_rank()) return why;
  return Status(why.code(), host_.describe(own_rank()) + ": " + why.message())
      .with_rank(own_rank())
      .with_errno(why.sys_errno());
}

}  // namespace hvd::engine
