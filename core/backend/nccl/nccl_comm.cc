// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/nccl_comm.h"

#include <thread>
#include <utility>

#include "backend/nccl/adasum.h"

namespace hvd::backend::nccl {

namespace {

constexpr Duration kPatience = std::chrono::seconds(3);
constexpr Duration kAnswerTime = std::chrono::seconds(1);
constexpr Duration kPause = std::chrono::microseconds(100);

}  // namespace

Result<std::unique_ptr<DeviceComm>> NcclComm::open(std::shared_ptr<const Library> library, device::Device& device, Tools tools,
                                                   const UniqueId& id, int members, int me) {
  std::unique_ptr<NcclComm> comm(new NcclComm(std::move(library), device, std::move(tools), members, me));
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

std::string NcclComm::name() const {
  const std::string without = tools_.kernels ? "" : ", without kernels: " + tools_.why_none;
  return library_->name() + " (" + library_->path() + ")" + without;
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

int NcclComm::score(const Work& work) const {
  const bool fits = work.op != ReduceOp::kAdasum || Adasum::serves(members_);
  return fits && runs(work, tools_.kernels != nullptr) ? 1 : -1;
}

Status NcclComm::start(const Work& work) {
  if (comm_ == nullptr) return Status(Code::kInvalidState, "NCCL has been aborted");
  if (work.op == ReduceOp::kAdasum) return reduce_adasum(work);
  const Scaling scaling = scaling_of(work);
  const bool with_kernels = tools_.kernels && (work.items.size() > 1 || scaling.before != 1.0 || scaling.after != 1.0);
  if (work.kind == Kind::kAllreduce && with_kernels) return reduce_fused(work, scaling);
  HVD_TRY(call(work, scaling.in_call));
  if (scaling.after == 1.0) return {};
  std::vector<device::Kernels::Part> parts;
  for (const Item& item : work.items) {
    parts.push_back({item.out, item.out, item.parts[static_cast<size_t>(me_)] * dtype_size(work.dtype)});
  }
  return apply(scaling.after, work.dtype, parts);
}

Status NcclComm::reduce_fused(const Work& work, const Scaling& scaling) {
  for (size_t first = 0; first < work.items.size(); first = fusion_.next()) {
    fusion_.plan(work, scaling, first, tools_.buffer->memory());
    HVD_TRY(apply(scaling.before, work.dtype, fusion_.into()));
    Work fused = work;
    fused.items = fusion_.items();
    HVD_TRY(call(fused, scaling.in_call));
    HVD_TRY(apply(scaling.after, work.dtype, fusion_.back()));
  }
  return {};
}

Status NcclComm::reduce_adasum(const Work& work) {
  Adasum adasum(
      {members_, me_, stream_, *tools_.kernels, tools_.buffer->memory(), [this](const Work& one) { return call(one, 1.0); }});
  return adasum.run(work);
}

Status NcclComm::apply(double factor, DType dtype, const std::vector<device::Kernels::Part>& parts) const {
  return factor == 1.0 ? tools_.kernels->copy(stream_, parts) : tools_.kernels->scale(stream_, dtype, parts, factor);
}

Status NcclComm::call(const Work& work, double factor) {
  const device::Device::Scope scope(device_);
  const Result<int> op = op_of(work, factor);
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
Result<int> NcclComm::op_of(const Work& work, double factor) {
  switch (work.op) {
    case ReduceOp::kMin: return kMin;
    case ReduceOp::kMax: return kMax;
    case ReduceOp::kProduct: return kProduct;
    default: break;
  }
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
