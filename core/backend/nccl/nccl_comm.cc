// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/nccl_comm.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "backend/nccl/adasum.h"
#include "backend/nccl/by_hosts.h"

namespace hvd::backend::nccl {

namespace {

constexpr Duration kPatience = std::chrono::seconds(3);
constexpr Duration kPause = std::chrono::microseconds(100);
// Each stream has that many communicators, one after the other.
constexpr size_t kCommsByHosts = 3;

}  // namespace

NcclComm::NcclComm(std::shared_ptr<const Library> library, device::Device& device, Tools tools,
                   Shape shape, int members, int me)
    : library_(std::move(library)),
      device_(device),
      tools_(std::move(tools)),
      shape_(std::move(shape)),
      members_(members),
      me_(me),
      comms_(library_, device, members, me) {}

Result<std::unique_ptr<DeviceComm>> NcclComm::open(std::shared_ptr<const Library> library,
                                                   device::Device& device, Tools tools, Shape shape,
                                                   const UniqueId& id, DeviceComm* split,
                                                   int members, int me) {
  std::unique_ptr<NcclComm> comm(
      new NcclComm(std::move(library), device, std::move(tools), std::move(shape), members, me));
  HVD_TRY(comm->begin(id, split));
  return std::unique_ptr<DeviceComm>(std::move(comm));
}

Status NcclComm::begin(const UniqueId& id, DeviceComm* split) {
  std::vector<Comms::Split> splits;
  for (size_t s = 0; s < shape_.streams; ++s) {
    const Result<StreamHandle> stream = device_.make_stream();
    if (!stream.ok()) return stream.status();
    streams_.push_back(stream.value());
    if (s > 0) splits.push_back({0, 0});
    if (!by_hosts()) continue;
    splits.push_back({s * kCommsByHosts, shape_.host});
    splits.push_back({s * kCommsByHosts, shape_.place});
  }
  if (split == nullptr) return comms_.begin(id, std::move(splits));
  comms_.adopt(static_cast<NcclComm*>(split)->comms_.give_up(), std::move(splits));
  return {};
}

Status NcclComm::start_split(bool member) {
  failure_ = {};
  program_ = split_off(member);
  return {};
}

// The library wants nothing to be under way meanwhile.
NcclComm::Program NcclComm::split_off(bool member) {
  co_await Condition{.ready = [](void* self) { return static_cast<NcclComm*>(self)->idle(); },
                     .self = this};
  if (!fails(comms_.split_off(member))) co_await queued();
}

// Without streams, and for no work.
std::unique_ptr<DeviceComm> NcclComm::take_split() {
  const CommHandle handle = comms_.take_split_off();
  if (handle == nullptr) return nullptr;
  std::unique_ptr<NcclComm> comm(new NcclComm(library_, device_, Tools{}, Shape{}, 0, 0));
  comm->comms_.adopt(handle, {});
  comm->comms_.connect();
  return comm;
}

NcclComm::Circle NcclComm::everybody() const {
  return {comms_[stream_index_ * (by_hosts() ? kCommsByHosts : 1)], members_, me_};
}

NcclComm::Circle NcclComm::neighbours() const {
  return {comms_[stream_index_ * kCommsByHosts + 1], static_cast<int>(shape_.local.size()),
          shape_.place};
}

// Members of this circle have the places of their hosts; nobody asks for the own place.
NcclComm::Circle NcclComm::counterparts() const {
  return {comms_[stream_index_ * kCommsByHosts + 2],
          members_ / static_cast<int>(shape_.local.size()), 0};
}

std::string NcclComm::name() const {
  std::string text = library_->name() + " (" + library_->path() + ")";
  if (shape_.streams > 1) text += ", " + std::to_string(shape_.streams) + " streams";
  if (by_hosts()) text += ", allreduce by hosts";
  return text + (tools_.kernels ? "" : ", without kernels: " + tools_.why_none);
}

bool NcclComm::idle() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [this](StreamHandle stream) { return device_.idle(stream); });
}

NcclComm::~NcclComm() {
  if (device_.forked()) {
    comms_.forget();
    if (ending_.joinable()) ending_.detach();  // the thread lives in the parent only
    return;
  }
  begin_end(true);
  limit_ = std::min(limit_.load(), now() + kPatience);
  if (ending_.joinable()) ending_.join();
  for (StreamHandle stream : streams_) device_.destroy_stream(stream);
}

void NcclComm::begin_end(bool in_order) noexcept {
  if (!in_order) limit_ = Time::min();
  if (ended_ || ending_.joinable()) return;
  try {
    ending_ = std::thread([this] { end(); });
  } catch (const std::system_error&) {  // no thread is to be had
    limit_ = std::min(limit_.load(), now() + kPatience);
    end();
  }
}

void NcclComm::end() noexcept {
  while (!idle() && now() < limit_.load()) std::this_thread::sleep_for(kPause);
  if (idle() && now() < limit_.load()) {
    const device::Device::Scope scope(device_);
    for (const auto& [comm, factor] : factors_) calls().destroy_op(factor.op, comm);
    if (comms_.leave()) comms_.destroy();
  }
  comms_.abort();
  ended_ = true;
}

Status NcclComm::health() {
  comms_.poll();
  return comms_.result();
}

int NcclComm::score(const Work& work) const {
  const bool fits = work.op != ReduceOp::kAdasum || Adasum::serves(members_);
  return fits && runs(work, tools_.kernels != nullptr) ? 1 : -1;
}

Status NcclComm::start(const Work& work) {
  if (comms_.gone()) return Status(Code::kInvalidState, "NCCL has been aborted");
  work_ = &work;
  failure_ = {};
  program_ = run();
  return {};
}

Progress NcclComm::poll() {
  if (!comms_.connected()) return comms_.connect();
  while (program_.step()) {
  }
  return program_.done() ? Progress::kDone : Progress::kWaiting;
}

void NcclComm::abort() noexcept {
  program_ = Program();
  begin_end(false);
  if (ending_.joinable()) ending_.join();
}

NcclComm::Condition NcclComm::queued() {
  return {.ready =
              [](void* self) {
                NcclComm& comm = *static_cast<NcclComm*>(self);
                if (!comm.failure_.ok()) return true;
                if (comm.comms_.poll() != Progress::kDone) return false;
                comm.failure_ = comm.comms_.result();
                return true;
              },
          .self = this};
}

bool NcclComm::fails(Status status) {
  failure_ = std::move(status);
  return !failure_.ok();
}

NcclComm::Program NcclComm::run() {
  const Work& work = *work_;
  const Scaling scaling = scaling_of(work);
  const bool packs = tools_.packs && work.items.size() > 1;
  Program inner;
  if (work.op == ReduceOp::kAdasum) {
    Adasum adasum(
        {members_, me_, stream(), *tools_.kernels, tools_.buffers[stream_index_]->memory(),
         [this](const Work& one) { return call(everybody(), one, 1.0); }, queued(), &failure_});
    inner = adasum.run(work);
    co_await over(inner);
  } else if (work.kind == Kind::kAllreduce && tools_.kernels &&
             (packs || scaling.before != 1.0 || scaling.after != 1.0)) {
    inner = reduce_fused(scaling);
    co_await over(inner);
  } else if (work.kind == Kind::kAllreduce) {
    inner = reduce(work, scaling.in_call);
    co_await over(inner);
  } else {
    if (fails(call(everybody(), work, scaling.in_call))) co_return;
    co_await queued();
    if (failure_.ok() && scaling.after != 1.0) fails(scale_results(scaling.after));
  }
}

// An allreduce. By hosts each member reduces its slice of every item with its neighbours, then with
// the members of the other hosts that have the same slice. Elements that do not divide into slices
// are reduced by everybody.
NcclComm::Program NcclComm::reduce(const Work& work, double factor) {
  if (!by_hosts()) {
    if (!fails(call(everybody(), work, factor))) co_await queued();
    co_return;
  }
  const ByHosts halves(work, neighbours().members, neighbours().me);
  if (!halves.slices.items.empty()) {
    if (fails(call(neighbours(), halves.slices, factor))) co_return;
    co_await queued();
    if (!failure_.ok() || fails(call(counterparts(), halves.across, 1.0))) co_return;
    co_await queued();
    if (!failure_.ok() || fails(call(neighbours(), halves.gather, 1.0))) co_return;
    co_await queued();
  }
  if (halves.rest.items.empty() || !failure_.ok() || fails(call(everybody(), halves.rest, factor)))
    co_return;
  co_await queued();
}

NcclComm::Program NcclComm::reduce_fused(Scaling scaling) {
  for (size_t first = 0; first < work_->items.size(); first = fusion_.next()) {
    fusion_.plan(*work_, scaling, first,
                 tools_.packs ? tools_.buffers[stream_index_]->memory() : nullptr);
    if (fails(apply(scaling.before, work_->dtype, fusion_.into()))) co_return;
    Work fused = *work_;
    fused.items = fusion_.items();
    Program inner = reduce(fused, scaling.in_call);
    co_await over(inner);
    if (!failure_.ok() || fails(apply(scaling.after, work_->dtype, fusion_.back()))) co_return;
  }
}

Status NcclComm::apply(double factor, DType dtype,
                       const std::vector<device::Kernels::Segment>& segments) const {
  return factor == 1.0 ? tools_.kernels->copy(stream(), segments)
                       : tools_.kernels->scale(stream(), dtype, segments, factor);
}

// Scales the results of a reducescatter.
Status NcclComm::scale_results(double factor) const {
  std::vector<device::Kernels::Segment> segments;
  for (const Item& item : work_->items) {
    segments.push_back(
        {item.out, item.out, item.parts[static_cast<size_t>(me_)] * dtype_size(work_->dtype)});
  }
  return apply(factor, work_->dtype, segments);
}

Status NcclComm::call(const Circle& circle, const Work& work, double factor) {
  const device::Device::Scope scope(device_);
  const Result<int> op = op_of(circle, work, factor);
  if (!op.ok()) return op.status();
  return comms_.check(
      queue({calls(), circle.comm, stream(), circle.me, circle.members}, work, op.value()),
      circle.comm);
}

// The operator that reduces a work.
Result<int> NcclComm::op_of(const Circle& circle, const Work& work, double factor) {
  switch (work.op) {
    case ReduceOp::kMin: return kMin;
    case ReduceOp::kMax: return kMax;
    case ReduceOp::kProduct: return kProduct;
    default: break;
  }
  if (factor == 1.0) return kSum;
  const auto known = factors_.find(circle.comm);
  if (known != factors_.end()) {
    if (known->second.dtype == work.dtype && known->second.value == factor) return known->second.op;
    calls().destroy_op(known->second.op, circle.comm);
    factors_.erase(known);
  }
  Scalar scalar = scalar_of(work.dtype, factor);
  int op = 0;
  const int error =
      calls().make_factor(&op, scalar.bytes, *type_number(work.dtype), kHostImmediate, circle.comm);
  HVD_TRY(library_->check(error, "ncclRedOpCreatePreMulSum", circle.comm));
  factors_[circle.comm] = {work.dtype, factor, op};
  return op;
}

}  // namespace hvd::backend::nccl
