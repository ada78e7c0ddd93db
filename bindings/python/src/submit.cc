// SPDX-License-Identifier: Apache-2.0
// Context::submit: from Python's arguments to one call of the C API.
#include <algorithm>

#include "context.h"
#include "errors.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

// The numbers of horovod/_floor/constants.py.
enum Kind : int { kAllreduce, kAllgather, kBroadcast, kAlltoall, kReducescatter, kBarrier, kJoin };
constexpr const char* kKindNames[] = {"allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier", "join"};

using SingleFunction = decltype(&hvd_allreduce_async);
using GroupedFunction = decltype(&hvd_grouped_allreduce_async);

SingleFunction single_function(int kind) {
  switch (kind) {
    case kAllreduce: return hvd_allreduce_async;
    case kAllgather: return hvd_allgatherv_async;
    case kBroadcast: return hvd_broadcast_async;
    case kReducescatter: return hvd_reducescatter_async;
    default: throw py::value_error("kind: no operation of one tensor");
  }
}

GroupedFunction grouped_function(int kind) {
  switch (kind) {
    case kAllreduce: return hvd_grouped_allreduce_async;
    case kAllgather: return hvd_grouped_allgatherv_async;
    case kReducescatter: return hvd_grouped_reducescatter_async;
    default: throw py::value_error("kind: no grouped operation");
  }
}

const char* text_or_null(py::handle name) {
  if (name.is_none()) return nullptr;
  const char* text = PyUnicode_AsUTF8(name.ptr());
  if (text == nullptr) throw py::error_already_set();
  return text;
}

}  // namespace

hvd_status Context::start(const Submission& submission, const Kept& kept, const hvd_op_options& options, hvd_handle** handle,
                          hvd_error* error) {
  const hvd_tensor* outputs = kept.outputs ? kept.outputs->data() : nullptr;
  switch (submission.kind) {
    case kBarrier: return hvd_barrier_async(context_, &options, handle, error);
    case kJoin: return hvd_join_async(context_, &options, handle, error);
    default: break;
  }
  const hvd_tensor* inputs = kept.inputs->data();
  if (submission.grouped)
    return grouped_function(submission.kind)(context_, inputs, outputs, kept.inputs->size(), &options, handle, error);
  if (kept.inputs->size() != 1) throw py::value_error("inputs: not one tensor");
  if (submission.kind == kAlltoall) {
    const int64_t* splits = submission.splits.is_none() ? nullptr : kept.splits.data();
    return hvd_alltoallv_async(context_, inputs, splits, outputs, &options, handle, error);
  }
  return single_function(submission.kind)(context_, inputs, outputs, &options, handle, error);
}

std::unique_ptr<Prepared> Context::prepare(std::string name, hvd_dtype dtype, std::vector<int64_t> shape, uintptr_t set,
                                           hvd_reduce_op reduce_op, double prescale, double postscale) const {
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.set = reinterpret_cast<hvd_process_set*>(set);
  options.reduce_op = reduce_op;
  options.prescale = prescale;
  options.postscale = postscale;
  return std::make_unique<Prepared>(std::move(name), dtype, std::move(shape), options);
}

std::unique_ptr<Burst> Context::start_burst(py::object self, py::list prepared, const std::vector<uintptr_t>& addresses,
                                            py::object keep) {
  if (!Orphans::of_process().empty()) Orphans::of_process().sweep();
  auto& context = self.cast<Context&>();
  Kept kept;
  kept.context = std::move(self);
  kept.buffers = std::move(keep);
  return std::make_unique<Burst>(context.context_, std::move(prepared), addresses, std::move(kept));
}

std::unique_ptr<Operation> Context::submit(py::object self, const Submission& submission, py::object keep) {
  auto& context = self.cast<Context&>();
  if (!Orphans::of_process().empty()) Orphans::of_process().sweep();
  Kept kept;
  if (!submission.inputs.is_none()) kept.inputs = std::make_unique<TensorList>(submission.inputs);
  if (!submission.outputs.is_none()) kept.outputs = std::make_unique<TensorList>(submission.outputs);
  if (!submission.splits.is_none()) {
    kept.splits.reserve(1);  // an empty list is not "no list": data() must not be NULL
    for (const py::handle split : submission.splits) kept.splits.push_back(split.cast<int64_t>());
  }
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = text_or_null(submission.name);
  options.set = reinterpret_cast<hvd_process_set*>(submission.set);
  options.reduce_op = submission.reduce_op;
  options.root = submission.root;
  options.prescale = submission.prescale;
  options.postscale = submission.postscale;
  const std::string label = options.name != nullptr ? options.name : kKindNames[submission.kind];

  const bool queued = context.queueing_;
  hvd_handle* handle = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  const hvd_status status = context.start(submission, kept, options, &handle, &error);
  if (status != HVD_OK) raise_status(status, error, label);
  kept.context = std::move(self);
  kept.buffers = std::move(keep);
  return std::make_unique<Operation>(handle, label, std::move(kept), queued);
}

}  // namespace hvd::python
