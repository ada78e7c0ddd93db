// SPDX-License-Identifier: Apache-2.0
#include "request.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "negotiation/signature.h"

namespace hvd::capi {

namespace {

using engine::Operation;
using engine::OpTensor;

constexpr uintptr_t kStreamPerThread = 2;  // cudaStreamPerThread, CU_STREAM_PER_THREAD

Status invalid(const Operation& operation, const std::string& what) {
  return Status(Code::kInvalidArgument, operation.subject() + ": " + what);
}

Status unsupported(const Operation& operation, const std::string& what) {
  return Status(Code::kUnsupported, operation.subject() + ": " + what);
}

// Checks one tensor on its own; `role` is "input" or "output", with the index in a group.
Status check_tensor(const Operation& operation, const hvd_tensor& tensor, const std::string& role, size_t* bytes) {
  if (!dtype_valid(tensor.dtype)) {
    return invalid(operation, role + ": dtype is " + std::to_string(tensor.dtype) + "; 0 to " + std::to_string(HVD_UINT4) +
                                  " are allowed");
  }
  if (tensor.ndim < 0 || tensor.ndim > negotiation::kMaxDimensions) {
    return invalid(operation, role + ": ndim is " + std::to_string(tensor.ndim) + "; 0 to 32 are allowed");
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) return invalid(operation, role + ": shape is NULL");
  if (tensor.device_type != HVD_CPU && tensor.device_type != HVD_CUDA) {
    return unsupported(
        operation, role + ": device type is " + std::to_string(tensor.device_type) + "; only 1 (CPU) and 2 (CUDA) are offered");
  }
  if (tensor.device_type == HVD_CPU && tensor.device_id != 0) {
    return invalid(operation, role + ": device id is " + std::to_string(tensor.device_id) + "; 0 is needed for the CPU");
  }
  if (tensor.reserved[0] != 0 || tensor.reserved[1] != 0) {
    return invalid(operation, role + ": a reserved field is not 0");
  }
  uint64_t total = dtype_size(static_cast<DType>(tensor.dtype));
  bool empty = false;
  bool overflow = false;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    const int64_t dim = tensor.shape[d];
    if (dim < 0) {
      return invalid(operation,
                     role + ": dimension " + std::to_string(d) + " is " + std::to_string(dim) + "; 0 or more is allowed");
    }
    empty = empty || dim == 0;
    overflow = overflow || (!empty && __builtin_mul_overflow(total, static_cast<uint64_t>(dim), &total));
  }
  if (!empty && (overflow || total > std::numeric_limits<int64_t>::max())) {
    return invalid(operation, role + ": the shape has more than 2^63 bytes");
  }
  *bytes = empty ? 0 : total;
  if (*bytes > 0 && tensor.data == nullptr) return invalid(operation, role + ": data is NULL");
  return {};
}

std::string device_text(const hvd_tensor& tensor) {
  return tensor.device_type == HVD_CPU ? "the CPU" : "CUDA device " + std::to_string(tensor.device_id);
}

// All tensors of an operation are where its first tensor is; the data of tensors on a device is memory of that device.
Status check_device(const Request& request, const Operation& operation, const hvd_tensor& tensor, const std::string& role,
                    size_t bytes) {
  const hvd_tensor& first = request.inputs[0];
  if (tensor.device_type != first.device_type || tensor.device_id != first.device_id) {
    return invalid(operation, role + ": is on " + device_text(tensor) + ", the first input on " + device_text(first));
  }
  if (!operation.staging || bytes == 0) return {};
  Status memory = operation.staging->device().check_memory(tensor.data);
  return memory.ok() ? Status() : Status(memory.code(), operation.subject() + ": " + role + ": " + memory.message());
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a);
  const auto y = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

// The shape a reducescatter, allreduce or broadcast has on this rank.
void set_output_dims(const Operation& operation, OpTensor* tensor) {
  tensor->out_dims = tensor->dims;
  if (operation.kind != OpKind::kReducescatter) return;
  const int64_t members = operation.set->size();
  const int64_t rows = tensor->rows();
  tensor->out_dims[0] = rows / members + (operation.set->me < rows % members ? 1 : 0);
}

// Where the output may share memory with the input: nowhere, exactly on it, or as hvd.h says for the operation.
Status check_placement(const Operation& operation, const OpTensor& tensor, const std::string& role, size_t in_bytes) {
  if (!overlap(tensor.in, in_bytes, tensor.out, tensor.out_bytes)) return {};
  bool in_place = tensor.in == tensor.out && !traits_of(operation.kind).ragged;
  if (operation.kind == OpKind::kAllgather) return {};  // the offset of this rank's part is known once all have said their rows
  if (operation.kind == OpKind::kReducescatter) {
    const int64_t members = operation.set->size();
    const int64_t me = operation.set->me;
    const int64_t first_row = me * (tensor.rows() / members) + std::min(me, tensor.rows() % members);
    const auto* own = static_cast<const std::byte*>(tensor.in) + static_cast<size_t>(first_row) * tensor.row_bytes();
    in_place = in_place || tensor.out == own;
  }
  return in_place ? Status() : invalid(operation, role + ": overlaps the input without being in place");
}

Status take_output(const Request& request, const Operation& operation, const hvd_tensor& given, const std::string& role,
                   size_t in_bytes, OpTensor* tensor) {
  size_t bytes = 0;
  HVD_TRY(check_tensor(operation, given, role, &bytes));
  HVD_TRY(check_device(request, operation, given, role, bytes));
  if (static_cast<DType>(given.dtype) != tensor->dtype) {
    return invalid(operation, role + ": dtype is " + dtype_name(static_cast<DType>(given.dtype)) + ", input has " +
                                  dtype_name(tensor->dtype));
  }
  const std::span<const int64_t> dims(given.shape, static_cast<size_t>(given.ndim));
  const bool size_known_later = traits_of(operation.kind).ragged;
  if (!size_known_later && !std::equal(dims.begin(), dims.end(), tensor->out_dims.begin(), tensor->out_dims.end())) {
    return invalid(operation, role + ": shape is " + negotiation::shape_text(dims) + "; " +
                                  negotiation::shape_text(tensor->out_dims) + " is needed");
  }
  tensor->out = given.data;
  tensor->out_bytes = bytes;
  tensor->caller_output = true;
  return check_placement(operation, *tensor, role, in_bytes);
}

Status allocate_output(Operation& operation, size_t bytes, OpTensor* tensor) {
  if (operation.staging) {
    Result<void*> memory = operation.staging->allocate(bytes);
    if (!memory.ok()) return operation.worded(memory.status());
    tensor->out = memory.value();
    return {};
  }
  return operation.own_output(*tensor, bytes);
}

Status take_tensors(const Request& request, Operation& operation) {
  const size_t count = request.inputs.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string suffix = count > 1 ? " " + std::to_string(i) : std::string();
    const hvd_tensor& given = request.inputs[i];
    size_t in_bytes = 0;
    // The data of a broadcast's input is read on the root only; elsewhere it may be NULL.
    hvd_tensor checked = given;
    const bool not_read = operation.kind == OpKind::kBroadcast && operation.root != operation.engine->topology().rank();
    if (not_read && checked.data == nullptr) checked.data = &checked;
    HVD_TRY(check_tensor(operation, checked, "input" + suffix, &in_bytes));
    HVD_TRY(check_device(request, operation, given, "input" + suffix, not_read ? 0 : in_bytes));
    OpTensor& tensor = operation.tensors[i];
    tensor.in = given.data;
    tensor.out = nullptr;
    tensor.out_bytes = 0;
    tensor.caller_output = false;
    tensor.dtype = static_cast<DType>(given.dtype);
    tensor.dims.assign(given.shape, given.shape + given.ndim);
    if (given.ndim == 0 && !traits_of(operation.kind).takes_scalars) {
      return invalid(operation, "input" + suffix + ": is a scalar; at least 1 dimension is needed");
    }
    set_output_dims(operation, &tensor);
    if (request.outputs != nullptr) {
      HVD_TRY(take_output(request, operation, request.outputs[i], "output" + suffix, in_bytes, &tensor));
    } else if (!traits_of(operation.kind).ragged) {
      size_t bytes = dtype_size(tensor.dtype);
      for (const int64_t dim : tensor.out_dims) bytes *= static_cast<size_t>(dim);
      HVD_TRY(allocate_output(operation, bytes, &tensor));
    }
  }
  return {};
}

// Notes what the caller has queued on its stream, if the tensors are on a device.
Status take_device(const Request& request, const hvd_op_options& options, Operation& operation) {
  if (request.inputs.empty() || request.inputs[0].device_type != HVD_CUDA) return {};
  if (reinterpret_cast<uintptr_t>(options.stream) == kStreamPerThread) {
    return invalid(operation,
                   "stream is cudaStreamPerThread, another stream in every thread; one of cudaStreamCreate or NULL is "
                   "needed");
  }
  Result<std::unique_ptr<device::Staging>> staging =
      operation.engine->devices().stage(request.inputs[0].device_id, options.stream);
  if (!staging.ok()) return operation.worded(staging.status());
  operation.staging = std::move(staging).value();
  return {};
}

Status take_reduction(const hvd_op_options& options, Operation& operation) {
  if (options.reduce_op < HVD_AVERAGE || options.reduce_op > HVD_PRODUCT) {
    return invalid(operation, "reduce_op is " + std::to_string(options.reduce_op) + "; 0 to 5 are allowed");
  }
  operation.op = static_cast<ReduceOp>(options.reduce_op);
  if (!std::isfinite(options.prescale) || !std::isfinite(options.postscale)) {
    return invalid(operation, "prescale is " + std::to_string(options.prescale) + ", postscale is " +
                                  std::to_string(options.postscale) + "; both must be finite");
  }
  operation.prescale = options.prescale;
  operation.postscale = options.postscale;
  if (operation.op == ReduceOp::kAdasum && operation.kind == OpKind::kReducescatter) {
    return unsupported(operation, "reduce op adasum is offered for allreduce only");
  }
  return {};
}

Status check_reduction(const Operation& operation) {
  for (const OpTensor& tensor : operation.tensors) {
    if (!dtype_reducible(tensor.dtype)) {
      return unsupported(operation, std::string("dtype ") + dtype_name(tensor.dtype) +
                                        " can be moved, not reduced; convert the input, for example to float32");
    }
    if (dtype_complex(tensor.dtype) && operation.op != ReduceOp::kSum && operation.op != ReduceOp::kAverage) {
      return unsupported(operation, std::string("reduce op ") + reduce_op_name(operation.op) + " is not defined for " +
                                        dtype_name(tensor.dtype) + "; average and sum are");
    }
    if (operation.op == ReduceOp::kAdasum && !dtype_floating(tensor.dtype)) {
      return unsupported(operation,
                         std::string("reduce op adasum needs a floating dtype, input has ") + dtype_name(tensor.dtype));
    }
    if (operation.op == ReduceOp::kAverage && tensor.dtype == DType::kBool) {
      return unsupported(operation, "reduce op average is not defined for bool");
    }
  }
  return {};
}

Status take_splits(const Request& request, Operation& operation) {
  const OpTensor& tensor = operation.tensors[0];
  const int64_t rows = tensor.rows();
  const int64_t members = operation.set->size();
  if (request.send_splits == nullptr) {
    if (rows % members != 0) {
      return invalid(operation, "dimension 0 is " + std::to_string(rows) + "; without splits it must be divisible by " +
                                    std::to_string(members));
    }
    operation.variable.assign(static_cast<size_t>(members), rows / members);
    return {};
  }
  int64_t left = rows;
  for (int64_t member = 0; member < members; ++member) {
    const int64_t split = request.send_splits[member];
    if (split < 0 || split > left) {
      return invalid(operation, "splits[" + std::to_string(member) + "] is " + std::to_string(split) + "; 0 to " +
                                    std::to_string(left) + " rows are left of " + std::to_string(rows));
    }
    left -= split;
    operation.variable.push_back(split);
  }
  return {};
}

Status take_name(const char* name, bool several, Operation& operation) {
  const std::string_view text = name;
  operation.set_key(negotiation::key_mark(operation.kind, several), text.substr(0, negotiation::kMaxNameBytes));
  if (text.size() > negotiation::kMaxNameBytes) {
    return invalid(operation, "the name has " + std::to_string(text.size()) + " bytes; 1 to 4096 are allowed");
  }
  if (text.empty()) return invalid(operation, "the name is empty, or begins with a null character");
  if (text.starts_with("hvd:")) return invalid(operation, "names that begin with hvd: are reserved");
  return {};
}

Status take_options(const Request& request, const hvd_op_options& options, Operation& operation) {
  engine::Engine& engine = *request.context->engine;
  operation.engine = request.context->engine;
  operation.set = options.set == nullptr ? request.context->world.set : options.set->set;
  operation.set_key(negotiation::kUnnamedMark, "unnamed");
  if (options.name != nullptr) HVD_TRY(take_name(options.name, request.inputs.size() > 1, operation));
  operation.unnamed = options.name == nullptr && request.kind != OpKind::kJoin;
  if (request.kind == OpKind::kJoin) operation.key = negotiation::kJoinKey;
  // Compares owners: locking the weak pointer would cost two atomic operations.
  const std::weak_ptr<engine::Engine>& owner = operation.set->engine;
  if (owner.owner_before(operation.engine) || operation.engine.owner_before(owner)) {
    return invalid(operation, "the process set belongs to another context");
  }
  operation.priority = options.priority;
  int64_t timeout = options.timeout_ns;
  if (timeout == 0) timeout = static_cast<int64_t>(engine.default_timeout_seconds() * 1e9);
  if (timeout > 0) operation.deadline = deadline_after(now(), Duration(timeout));
  return {};
}

Status take_root(const hvd_op_options& options, Operation& operation) {
  const std::vector<int>& ranks = operation.set->ranks;
  if (std::find(ranks.begin(), ranks.end(), options.root) == ranks.end()) {
    std::string allowed;
    for (const int rank : ranks) allowed += " " + std::to_string(rank);
    return invalid(operation, "root is " + std::to_string(options.root) + "; the ranks of the process set are" + allowed);
  }
  operation.root = options.root;
  return {};
}

int64_t eager_bytes(const Operation& operation) {
  const engine::EagerLimit& limit = operation.set->eager;
  return operation.engine->idle() ? limit.alone : limit.among_others;
}

// Writes the signature, which the coordinator compares, and the payload of an operation that is small enough for its payload to
// travel with the announcement.
void sign(Operation& operation) {
  operation.signature.reserve(64);
  negotiation::SignatureWriter writer(operation.signature, operation.kind, operation.op, operation.root, operation.prescale,
                                      operation.postscale, operation.tensors.size(),
                                      operation.staging ? negotiation::Place::kCuda : negotiation::Place::kCpu);
  size_t bytes = 0;
  bool one_dtype = true;
  for (const OpTensor& tensor : operation.tensors) {
    writer.tensor(tensor.dtype, tensor.dims);
    bytes += tensor.count() * dtype_size(tensor.dtype);
    one_dtype = one_dtype && tensor.dtype == operation.tensors[0].dtype;
  }
  operation.print = fingerprint(operation.signature, fingerprint(as_byte_span(operation.key)).low);
  if (!traits_of(operation.kind).fusible || operation.op == ReduceOp::kAdasum || !one_dtype ||
      static_cast<int64_t>(bytes) > eager_bytes(operation) || operation.set->size() == 1 || operation.staging) {
    return;
  }
  operation.eager = true;
  if (operation.tensors.size() == 1) {
    operation.payload = {static_cast<const std::byte*>(operation.tensors[0].in), bytes};
    return;
  }
  for (const OpTensor& tensor : operation.tensors) {
    const auto* in = static_cast<const std::byte*>(tensor.in);
    operation.gathered_payload.insert(operation.gathered_payload.end(), in, in + tensor.count() * dtype_size(tensor.dtype));
  }
  operation.payload = operation.gathered_payload;
}

}  // namespace

Result<std::unique_ptr<Operation>> make_operation(const Request& request) {
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  if (request.options != nullptr) {
    constexpr size_t kFirst = offsetof(hvd_op_options, stream);  // the size in version 1
    HVD_TRY(read_sized(request.options, "hvd_op_options", kFirst, sizeof options, &options));
  }
  if (request.context->engine->forked()) return forked_context();  // before the first lock, which the parent may have held
  std::unique_ptr<Operation> operation = request.context->engine->fresh_operation();
  operation->tensors.resize(request.inputs.size());
  operation->kind = request.kind;
  HVD_TRY(take_options(request, options, *operation));
  const OpTraits& traits = traits_of(request.kind);
  if (traits.moves_data && (request.inputs.empty() || request.inputs.size() > negotiation::kMaxTensors)) {
    return invalid(*operation, "count is " + std::to_string(request.inputs.size()) + "; 1 to 65535 are allowed");
  }
  if (traits.reduces) HVD_TRY(take_reduction(options, *operation));
  if (traits.takes_root) HVD_TRY(take_root(options, *operation));
  HVD_TRY(take_device(request, options, *operation));
  HVD_TRY(take_tensors(request, *operation));
  if (traits.reduces) HVD_TRY(check_reduction(*operation));
  if (traits.takes_splits) {
    HVD_TRY(take_splits(request, *operation));
  } else if (traits.ragged) {
    for (const OpTensor& tensor : operation->tensors) operation->variable.push_back(tensor.rows());
  }
  sign(*operation);
  return operation;
}

}  // namespace hvd::capi
