// SPDX-License-Identifier: Apache-2.0
// Execution: tensors on devices. Such tensors go through host memory or, where the members' devices
// are connected, stay where they are.
#include <algorithm>
#include <utility>

#include "engine/execution.h"
#include "engine/process_set.h"

namespace hvd::engine {

using backend::Item;
using backend::Kind;

namespace {

bool splits_elements(const void* memory, DType dtype) {
  return reinterpret_cast<uintptr_t>(memory) % dtype_size(dtype) != 0;
}

}  // namespace

// The answer is the same on all members: the members agree on everything that the function looks
// at.
bool Execution::can_go_direct(const DevicePlane& plane) const {
  const auto runs = [&](const Operation& operation) {
    if (!reduces(operation.kind)) return true;
    const Kind kind =
        operation.kind == OpKind::kReducescatter ? Kind::kReducescatter : Kind::kAllreduce;
    return std::all_of(
        operation.tensors.begin(), operation.tensors.end(), [&](const OpTensor& tensor) {
          return plane.runs(reduction(
              kind, {tensor.dtype, operation.op, operation.prescale, operation.postscale}));
        });
  };
  return std::all_of(operations_.begin(), operations_.end(),
                     [&](const Operation* operation) { return runs(*operation); });
}

// Tensors that the library can not be given as they are go through host memory on this rank only:
// tensors of another device than the connected one, results without a place on the device,
// addresses that split elements, and an output at the beginning of a reducescatter's input, which
// others of its calls have yet to read.
bool Execution::stays(const Operation& operation, const OpTensor& tensor,
                      const Layout& layout) const {
  if (direct_ == nullptr || &operation.staging->device() != direct_->device()) return false;
  if (layout.out_bytes > 0 && tensor.out == nullptr) return false;
  if (layout.in_bytes > 0 && splits_elements(tensor.in, tensor.dtype)) return false;
  if (layout.out_bytes > 0 && splits_elements(tensor.out, tensor.dtype)) return false;
  return operation.kind != OpKind::kReducescatter || tensor.in != tensor.out || layout.out_at == 0;
}

Status Execution::place(Operation& operation, const OpTensor& tensor, const Layout& layout,
                        Item& item) {
  if (!operation.staging || stays(operation, tensor, layout)) {
    item.in = tensor.in;
    item.out = tensor.out;
    return {};
  }
  Result<std::byte*> host = operation.staging->add(
      {tensor.in, layout.in_bytes, layout.in_at, tensor.out, layout.out_bytes, layout.out_at});
  if (!host.ok()) return operation.worded(host.status());
  item.in = host.value() + layout.in_at;
  item.out = host.value() + layout.out_at;
  return {};
}

Status Execution::load_inputs() {
  for (size_t i = 0; i < staged_.size(); ++i) {
    if (direct_ != nullptr && !staged_[i]->in_host_memory()) continue;
    // Copies from one device arrive in their order, so the last one's bell is enough for it. A
    // library's stream needs none.
    const bool last = i + 1 == staged_.size() || &staged_[i]->device() != &staged_[i + 1]->device();
    HVD_TRY(staged_[i]->load(last && direct_ == nullptr));
  }
  return {};
}

// Whether the works may begin.
Result<bool> Execution::inputs_ready() {
  for (; loaded_ < staged_.size(); ++loaded_) {
    if (direct_ != nullptr) {
      HVD_TRY(staged_[loaded_]->enter(*direct_->device(), direct_->comm()->stream()));
      continue;
    }
    const Result<bool> here = staged_[loaded_]->loaded();
    if (!here.ok() || !here.value()) return here;
  }
  return true;
}

void Execution::prepare_split(Operation& confirming, DevicePlane& plane) {
  reset();
  operations_.push_back(&confirming);
  outcomes_.resize(1);
  splits_ = &plane;
}

// Whether the members are connected is the same on all members when this execution's turn has come,
// not before.
backend::Progress Execution::poll_split() {
  backend::DeviceComm* comm = splits_->comm();
  if (comm == nullptr || !comm->splits()) return backend::Progress::kDone;
  Operation& confirming = *operations_[0];
  if (!running_) {
    direct_ = splits_;
    if (Status started = comm->start_split(confirming.confirms->me >= 0); !started.ok())
      return fail_here(std::move(started));
    running_ = true;
  }
  if (comm->poll() != backend::Progress::kDone) return backend::Progress::kWaiting;
  if (Status ended = comm->result(); !ended.ok()) return fail_here(std::move(ended));
  confirming.split = comm->take_split();
  return backend::Progress::kDone;
}

Status Execution::give_results() {
  if (direct_ == nullptr) {
    for (device::Staging* staging : staged_) HVD_TRY(staging->store());
    return {};
  }
  const Result<const device::Moment*> done = direct_->mark();
  if (!done.ok()) return done.status();
  for (device::Staging* staging : staged_) HVD_TRY(staging->leave(*done.value()));
  return {};
}

}  // namespace hvd::engine
