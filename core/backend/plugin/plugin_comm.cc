// SPDX-License-Identifier: Apache-2.0
#include "backend/plugin/plugin_comm.h"

namespace hvd::backend::plugin {

using collectives::Condition;

int PluginComm::score(const Work& work) const {
  return work.kind == Kind::kAllreduce && work.op == ReduceOp::kAdasum ? -1 : 2;
}

Status PluginComm::start(const Work& work) {
  if (broken_) return Status(Code::kInvalidState, "the data plane has been given up");
  work_ = &work;
  failure_ = {};
  program_ = choose();
  return {};
}

PluginComm::Program PluginComm::choose() {
  const bool hosts = by_hosts();
  switch (work_->kind) {
    case Kind::kAllreduce: return hosts ? allreduce_by_hosts() : allreduce();
    case Kind::kAllgather:
      return hosts && parts_.hosts.consecutive ? allgather_by_hosts() : allgather();
    case Kind::kBroadcast: return hosts ? broadcast_by_hosts() : broadcast();
    case Kind::kReducescatter:
      return hosts && parts_.hosts.consecutive ? reducescatter_by_hosts() : reducescatter();
    case Kind::kAlltoall: break;
  }
  return alltoall();
}

Progress PluginComm::poll() {
  const bool moved = program_.step();
  if (!program_.done()) return moved ? Progress::kMoved : Progress::kWaiting;
  if (failure_.ok()) return Progress::kDone;
  if (moved) failed_at_ = now();
  return now() - failed_at_ < kGraceOfLibraries ? Progress::kWaiting : Progress::kDone;
}

bool PluginComm::must_poll() const {
  return failed() || (!program_.done() && parts_.all->must_poll());
}

int PluginComm::waiting_for() const {
  if (!local_running_) return -1;
  const int local = parts_.local->waiting_for();
  return local < 0
             ? -1
             : parts_.hosts
                   .members[static_cast<size_t>(parts_.hosts.host)][static_cast<size_t>(local)];
}

void PluginComm::abort() noexcept {
  broken_ = true;
  if (running_ != nullptr) running_->abort();
  running_ = nullptr;
  if (local_running_) parts_.local->abort();
  local_running_ = false;
  program_ = Program();
}

Status PluginComm::begin(LibraryComm& comm, const LibraryComm::Request& request) {
  HVD_TRY(comm.start(request));
  running_ = &comm;
  return {};
}

Status PluginComm::begin_local(const Work& work) {
  HVD_TRY(parts_.local->start(work));
  local_running_ = true;
  return {};
}

Condition PluginComm::request_over(LibraryComm&) {
  return {.ready =
              [](void* self) {
                PluginComm& comm = *static_cast<PluginComm*>(self);
                if (comm.running_ == nullptr) return true;
                Status status = comm.running_->poll();
                if (status.code() == Code::kPending) return false;
                comm.running_ = nullptr;
                if (!status.ok()) comm.failure_ = std::move(status);
                return true;
              },
          .self = this};
}

Condition PluginComm::local_over() {
  return {.ready =
              [](void* self) {
                PluginComm& comm = *static_cast<PluginComm*>(self);
                if (!comm.local_running_) return true;
                Progress progress = comm.parts_.local->poll();
                while (progress == Progress::kMoved) progress = comm.parts_.local->poll();
                if (progress != Progress::kDone) return false;
                comm.local_running_ = false;
                comm.failure_ = comm.parts_.local->result();
                return true;
              },
          .self = this};
}

}  // namespace hvd::backend::plugin
