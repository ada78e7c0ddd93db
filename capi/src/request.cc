// SPDX-License-Identifier: Apache-2.0
#include "request.h"

#include <cstddef>
#include <limits>

#include "engine/draft.h"

namespace hvd::capi {

namespace {

using engine::Draft;
using engine::GivenTensor;
using engine::Role;

// Reads one tensor, and checks it on its own.
Status read_tensor(const Draft& draft, const hvd_tensor& tensor, const Role& role, bool needs_data,
                   GivenTensor* given) {
  if (!dtype_valid(tensor.dtype)) {
    return draft.invalid(role.text() + ": dtype is " + std::to_string(tensor.dtype) + "; 0 to " +
                         std::to_string(HVD_UINT4) + " are allowed");
  }
  if (tensor.ndim < 0 || tensor.ndim > engine::kMaxDimensions) {
    return draft.invalid(role.text() + ": ndim is " + std::to_string(tensor.ndim) +
                         "; 0 to 32 are allowed");
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr)
    return draft.invalid(role.text() + ": shape is NULL");
  if (tensor.device_type != HVD_CPU && tensor.device_type != HVD_CUDA) {
    return draft.unsupported(role.text() + ": device type is " +
                             std::to_string(tensor.device_type) +
                             "; only 1 (CPU) and 2 (CUDA) are offered");
  }
  if (tensor.device_type == HVD_CPU && tensor.device_id != 0) {
    return draft.invalid(role.text() + ": device id is " + std::to_string(tensor.device_id) +
                         "; 0 is needed for the CPU");
  }
  if (tensor.reserved[0] != 0 || tensor.reserved[1] != 0)
    return draft.invalid(role.text() + ": a reserved field is not 0");
  given->data = tensor.data;
  given->dtype = static_cast<DType>(tensor.dtype);
  given->dims = {tensor.shape, static_cast<size_t>(tensor.ndim)};
  if (tensor.device_type == HVD_CUDA) given->device = tensor.device_id;
  uint64_t total = dtype_size(given->dtype);
  bool empty = false;
  bool overflow = false;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    const int64_t dim = tensor.shape[d];
    if (dim < 0) {
      return draft.invalid(role.text() + ": dimension " + std::to_string(d) + " is " +
                           std::to_string(dim) + "; 0 or more is allowed");
    }
    empty = empty || dim == 0;
    overflow =
        overflow || (!empty && __builtin_mul_overflow(total, static_cast<uint64_t>(dim), &total));
  }
  if (!empty && (overflow || total > std::numeric_limits<int64_t>::max())) {
    return draft.invalid(role.text() + ": the shape has more than 2^63 bytes");
  }
  given->bytes = empty ? 0 : total;
  if (needs_data && given->bytes > 0 && tensor.data == nullptr)
    return draft.invalid(role.text() + ": data is NULL");
  return {};
}

Status read_tensors(const Request& request, Draft& draft) {
  const size_t count = request.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    const Role in = {"input", i, count};
    GivenTensor input;
    HVD_TRY(read_tensor(draft, request.inputs[i], in, draft.reads_inputs(), &input));
    HVD_TRY(draft.take_input(input, in));
    if (request.outputs == nullptr) {
      HVD_TRY(draft.make_output(i));
      continue;
    }
    const Role out = {"output", i, count};
    GivenTensor output;
    HVD_TRY(read_tensor(draft, request.outputs[i], out, true, &output));
    HVD_TRY(draft.take_output(output, out));
  }
  return {};
}

Status read_call(const Request& request, engine::CallArguments* call) {
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  if (request.options != nullptr) {
    constexpr size_t kFirst = offsetof(hvd_op_options, stream);  // the size in version 1
    HVD_TRY(read_sized(request.options, "hvd_op_options", kFirst, sizeof options, &options));
  }
  call->kind = request.kind;
  call->set = options.set == nullptr ? request.context->world.set : options.set->set;
  call->name = options.name;
  call->tensors = request.inputs.size();
  call->priority = options.priority;
  call->timeout_ns = options.timeout_ns;
  call->reduce_op = options.reduce_op;
  call->prescale = options.prescale;
  call->postscale = options.postscale;
  call->root = options.root;
  if (!request.inputs.empty() && request.inputs[0].device_type == HVD_CUDA)
    call->device = request.inputs[0].device_id;
  call->stream = options.stream;
  return {};
}

}  // namespace

Result<std::unique_ptr<engine::Operation>> make_operation(const Request& request) {
  engine::CallArguments call;
  HVD_TRY(read_call(request, &call));
  // before the first lock, which the parent may have held
  if (request.context->engine->forked()) return forked_context();
  Draft draft(request.context->engine);
  HVD_TRY(draft.begin(std::move(call)));
  HVD_TRY(read_tensors(request, draft));
  return draft.finish(request.send_splits);
}

}  // namespace hvd::capi
