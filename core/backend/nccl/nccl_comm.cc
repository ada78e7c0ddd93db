// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/nccl_comm.h"

#include <thread>
#include <utility>

namespace hvd::backend::nccl {

namespace {

constexpr Duration kPatience = std::chrono::seconds(3);
constexpr Duration kAnswerTime = std::chrono::seconds(1);
constexpr Duration kPause = std::chrono::microseconds(100);

}  // namespace

Result<std::unique_ptr<DeviceComm>> NcclComm::open(std::shared_ptr<const Library> library, device::Device& device,
                                                   const UniqueId& id, int members, int me) {
  std::unique_ptr<NcclComm> comm(new NcclComm(std::move(library), device, members, me));
  HVD_TRY(comm->begin(id));
  return std::unique_ptr<DeviceComm>(std::move(comm));
}

Status NcclComm::begin(const UniqueId& id) {
  Result<StreamHandle> stream = device_.make_stream();
  if (!stream.ok()) return stream.status();
  stream_ = stream.value();
  const device::Device::Scope scope(device_);
  Config config;
  return library_->check(calls().init(&comm_, members_, id, me_, &config), "ncclCommInitRankConfig");
}

NcclComm::~NcclComm() {
  if (device_.forked()) return;
  const Time limit = now() + kPatience;
  while (comm_ != nullptr && !device_.idle(stream_) && now() < limit) std::this_thread::sleep_for(kPause);
  if (comm_ != nullptr && device_.idle(stream_) && leave()) {
    const device::Device::Scope scope(device_);
    calls().destroy(std::exchange(comm_, nullptr));
  }
  abort();
  if (stream_ != nullptr) device_.destroy_stream(stream_);
}

// Others may yet read what this rank's works have left in memory of the library, and it lets go of that when all have left. One
// that stays longer has read by then.
bool NcclComm::leave() {
  const device::Device::Scope scope(device_);
  drop_factor();
  const Time limit = now() + kAnswerTime;
  int state = calls().finalize(comm_);
  while ((state == kSuccess || state == kInProgress) && now() < limit) {
    if (calls().async_error(comm_, &state) != kSuccess) return false;
    if (state == kSuccess) return true;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

void NcclComm::abort() noexcept {
  if (comm_ == nullptr) return;
  const device::Device::Scope scope(device_);
  calls().abort(std::exchange(comm_, nullptr));
}

Status NcclComm::ask(int* state) {
  const device::Device::Scope scope(device_);
  HVD_TRY(library_->check(calls().async_error(comm_, state), "ncclCommGetAsyncError"));
  return excused(*state) ? Status() : library_->check(*state, "NCCL", comm_);
}

// The library does not say which rank has gone. Whoever has lost it in another way does, and is given the time to.
bool NcclComm::excused(int state) {
  if (state != kRemoteError) return false;
  if (remote_since_ == kNever) remote_since_ = now();
  return now() - remote_since_ < kAnswerTime;
}

Status NcclComm::health() {
  int state = kSuccess;
  return comm_ == nullptr ? Status() : ask(&state);
}

Status NcclComm::start(const Work& work) {
  if (comm_ == nullptr) return Status(Code::kInvalidState, "NCCL has been aborted");
  const device::Device::Scope scope(device_);
  const Result<int> op = op_of(work);
  if (!op.ok()) return op.status();
  const int error = queue({calls(), comm_, stream_, me_, members_}, work, op.value());
  return excused(error) ? Status() : library_->check(error, "NCCL", comm_);
}

Progress NcclComm::poll() {
  if (comm_ == nullptr) return Progress::kDone;
  int state = kSuccess;
  result_ = ask(&state);
  return result_.ok() && state != kSuccess ? Progress::kWaiting : Progress::kDone;
}

// What reduces a work.
Result<int> NcclComm::op_of(const Work& work) {
  switch (work.op) {
    case ReduceOp::kMin: return kMin;
    case ReduceOp::kMax: return kMax;
    case ReduceOp::kProduct: return kProduct;
    default: break;
  }
  const bool reduces = work.kind == Kind::kAllreduce || work.kind == Kind::kReducescatter;
  const double factor = reduces ? factor_of(work) : 1.0;
  if (factor == 1.0) return kSum;
  if (has_factor_ && factor_dtype_ == work.dtype && factor_ == factor) return factor_op_;
  drop_factor();
  Scalar scalar = scalar_of(work.dtype, factor);
  const int error = calls().make_factor(&factor_op_, scalar.bytes, *type_number(work.dtype), kHostImmediate, comm_);
  HVD_TRY(library_->check(error, "ncclRedOpCreatePreMulSum", comm_));
  has_factor_ = true;
  factor_dtype_ = work.dtype;
  factor_ = factor;
  return factor_op_;
}

void NcclComm::drop_factor() {
  if (std::exchange(has_factor_, false)) calls().destroy_op(factor_op_, comm_);
}

}  // namespace hvd::backend::nccl
