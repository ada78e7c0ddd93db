// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda_aware/cuda_aware_comm.h"

#include <numeric>
#include <utility>

namespace hvd::backend::cuda_aware {

namespace {

size_t before(std::span<const size_t> bytes, size_t member) {
  return std::accumulate(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(member), size_t{0});
}

const std::byte* at(const void* memory, size_t offset) {
  return static_cast<const std::byte*>(memory) + offset;
}
std::byte* at(void* memory, size_t offset) { return static_cast<std::byte*>(memory) + offset; }

}  // namespace

Result<std::unique_ptr<DeviceComm>> CudaAwareComm::open(DeviceMoves& moves, device::Device& device,
                                                        int members, int me) {
  std::unique_ptr<CudaAwareComm> comm(new CudaAwareComm(moves, device, members, me));
  const Result<device::StreamHandle> stream = device.make_stream();
  if (!stream.ok()) return stream.status();
  comm->stream_ = stream.value();
  return std::unique_ptr<DeviceComm>(std::move(comm));
}

CudaAwareComm::~CudaAwareComm() {
  if (stream_ != nullptr && !device_.forked()) device_.destroy_stream(stream_);
}

int CudaAwareComm::score(const Work& work) const {
  return work.kind == Kind::kAllgather || work.kind == Kind::kBroadcast ||
                 work.kind == Kind::kAlltoall
             ? 1
             : -1;
}

Status CudaAwareComm::start(const Work& work) {
  work_ = &work;
  failure_ = {};
  move_failed_ = false;
  program_ = run();
  return {};
}

Progress CudaAwareComm::poll() {
  if (program_.done() && !failure_.ok())
    return now() - failed_at_ < kGraceOfLibraries ? Progress::kWaiting : Progress::kDone;
  while (program_.step()) {
  }
  return program_.done() && failure_.ok() ? Progress::kDone : Progress::kWaiting;
}

void CudaAwareComm::abort() noexcept {
  if (std::exchange(moving_, false)) moves_.abort();
  program_ = Program();
}

CudaAwareComm::Condition CudaAwareComm::reached() {
  return {.ready =
              [](void* self) {
                CudaAwareComm& comm = *static_cast<CudaAwareComm*>(self);
                const Result<bool> reached = comm.device_.reached(comm.moment_);
                return (!reached.ok() && comm.fails(reached.status())) || reached.value();
              },
          .self = this};
}

CudaAwareComm::Condition CudaAwareComm::moved() {
  return {.ready =
              [](void* self) {
                CudaAwareComm& comm = *static_cast<CudaAwareComm*>(self);
                Status status = comm.moves_.poll();
                if (status.code() == Code::kPending) return false;
                comm.moving_ = false;
                comm.move_failed_ = comm.fails(std::move(status));
                return true;
              },
          .self = this};
}

bool CudaAwareComm::fails(Status status) {
  if (status.ok()) return false;
  failed_at_ = now();
  failure_ = std::move(status);
  return true;
}

// The library knows no streams. So it is given memory that the stream has finished with, and the
// bytes that it writes are there when it says that it is done. The stream's next moment is behind
// the copies made here meanwhile.
CudaAwareComm::Program CudaAwareComm::run() {
  const Work& work = *work_;
  Result<device::Moment> moment = device_.mark(stream_);
  if (!moment.ok() && fails(moment.status())) co_return;
  moment_ = std::move(moment).value();
  co_await reached();
  Program inner;
  for (const Item& item : work.items) {
    if (!failure_.ok() || fails(copy_own(item))) co_return;
    if (work.kind == Kind::kBroadcast) {
      inner = broadcast(item);
      co_await over(inner);
    } else if (work.kind == Kind::kAllgather) {
      if (begun(moves_.gather(item.in, item.out, item.parts.data(), -1))) co_await moved();
    } else if (begun(moves_.exchange(item.in, work.send_bytes.data(), item.out,
                                     work.receive_bytes.data()))) {
      co_await moved();
    }
  }
}

// Copies the part that this member has for itself.
Status CudaAwareComm::copy_own(const Item& item) const {
  const void* from = item.in;
  void* to = item.out;
  size_t bytes = 0;
  switch (work_->kind) {
    case Kind::kAllgather:
      bytes = item.parts[me_];
      to = at(item.out, before(item.parts, me_));
      break;
    case Kind::kBroadcast:
      bytes = work_->root_member == static_cast<int>(me_) ? item.count : 0;
      break;
    default:
      bytes = work_->send_bytes[me_];
      from = at(item.in, before(work_->send_bytes, me_));
      to = at(item.out, before(work_->receive_bytes, me_));
  }
  return bytes == 0 || from == to ? Status() : device_.copy(stream_, to, from, bytes);
}

CudaAwareComm::Program CudaAwareComm::broadcast(const Item& item) {
  const int root = work_->root_member;
  const bool mine = static_cast<int>(me_) == root;
  const void* source = mine ? item.in : item.out;
  counts_.assign(members_, 0);
  others_.assign(members_, 0);
  if (members_ == 2 || item.count < kSharedBroadcast) {
    counts_[static_cast<size_t>(root)] = item.count;
    if (begun(moves_.gather(source, item.out, counts_.data(), root))) co_await moved();
    co_return;
  }
  for (size_t m = 0; m < members_; ++m)
    counts_[m] = item.count * (m + 1) / members_ - item.count * m / members_;
  const size_t place = before(counts_, me_);
  if (!mine) others_[static_cast<size_t>(root)] = counts_[me_];
  const std::vector<size_t> none(members_, 0);
  const size_t* sent = mine ? counts_.data() : none.data();
  if (!begun(moves_.exchange(source, sent, at(item.out, place), others_.data()))) co_return;
  co_await moved();
  if (!failure_.ok() || !begun(moves_.gather(at(source, place), item.out, counts_.data(), root)))
    co_return;
  co_await moved();
}

bool CudaAwareComm::begun(Status status) {
  moving_ = status.ok();
  move_failed_ = fails(std::move(status));
  return moving_;
}

}  // namespace hvd::backend::cuda_aware
