// SPDX-License-Identifier: Apache-2.0
#include "engine/draft.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "engine/engine.h"
#include "engine/signing.h"

namespace hvd::engine {

namespace {

constexpr uintptr_t kStreamPerThread = 2;  // cudaStreamPerThread, CU_STREAM_PER_THREAD

std::string device_text(const std::optional<int>& device) {
  return device ? "CUDA device " + std::to_string(*device) : "the CPU";
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a);
  const auto y = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

// The shape a reducescatter, allreduce or broadcast has on this rank.
void set_output_dims(const Operation& operation, OpTensor& tensor) {
  tensor.out_dims = tensor.dims;
  if (operation.kind != OpKind::kReducescatter) return;
  const int64_t members = operation.set->size();
  const int64_t rows = tensor.rows();
  tensor.out_dims[0] = rows / members + (operation.set->me < rows % members ? 1 : 0);
}

}  // namespace

Draft::Draft(const std::shared_ptr<Engine>& engine) : operation_(engine->fresh_operation()) {
  operation_->engine = engine;
}

Status Draft::invalid(const std::string& what) const {
  return Status(Code::kInvalidArgument, operation_->subject() + ": " + what);
}

Status Draft::unsupported(const std::string& what) const {
  return Status(Code::kUnsupported, operation_->subject() + ": " + what);
}

Status Draft::begin(CallArguments call) {
  Operation& operation = *operation_;
  operation.tensors.resize(call.tensors);
  operation.kind = call.kind;
  operation.set_key(negotiation::kUnnamedMark, "unnamed");
  if (call.name != nullptr) HVD_TRY(take_name(call.name, call.tensors > 1));
  operation.unnamed = call.name == nullptr && call.kind != OpKind::kJoin;
  if (call.kind == OpKind::kJoin) operation.key = negotiation::kJoinKey;
  HVD_TRY(take_set(std::move(call.set)));
  operation.priority = call.priority;
  int64_t timeout = call.timeout_ns;
  if (timeout == 0)
    timeout = static_cast<int64_t>(operation.engine->default_timeout_seconds() * 1e9);
  if (timeout > 0) operation.deadline = deadline_after(now(), Duration(timeout));
  const OpTraits& traits = traits_of(call.kind);
  if (traits.moves_data && (call.tensors == 0 || call.tensors > negotiation::kMaxTensors)) {
    return invalid("count is " + std::to_string(call.tensors) + "; 1 to 65535 are allowed");
  }
  if (traits.reduces) HVD_TRY(take_reduction(call));
  if (traits.takes_root) HVD_TRY(take_root(call.root));
  device_ = call.device;
  return device_ ? take_device(call.stream) : Status();
}

Status Draft::take_name(const char* name, bool several) {
  const std::string_view text = name;
  operation_->set_key(negotiation::key_mark(operation_->kind, several),
                      text.substr(0, negotiation::kMaxNameBytes));
  if (text.size() > negotiation::kMaxNameBytes) {
    return invalid("the name has " + std::to_string(text.size()) + " bytes; 1 to 4096 are allowed");
  }
  if (text.empty()) return invalid("the name is empty, or begins with a null character");
  if (text.starts_with("hvd:")) return invalid("names that begin with hvd: are reserved");
  return {};
}

Status Draft::take_set(std::shared_ptr<ProcessSet> set) {
  operation_->set = std::move(set);
  // Compares owners: locking the weak pointer would cost two atomic operations.
  const std::weak_ptr<Engine>& owner = operation_->set->engine;
  if (owner.owner_before(operation_->engine) || operation_->engine.owner_before(owner)) {
    return invalid("the process set belongs to another context");
  }
  return {};
}

Status Draft::take_reduction(const CallArguments& call) {
  Operation& operation = *operation_;
  if (call.reduce_op < 0 || call.reduce_op > static_cast<int32_t>(ReduceOp::kProduct)) {
    return invalid("reduce_op is " + std::to_string(call.reduce_op) + "; 0 to 5 are allowed");
  }
  operation.op = static_cast<ReduceOp>(call.reduce_op);
  if (!std::isfinite(call.prescale) || !std::isfinite(call.postscale)) {
    return invalid("prescale is " + std::to_string(call.prescale) + ", postscale is " +
                   std::to_string(call.postscale) + "; both must be finite");
  }
  operation.prescale = call.prescale;
  operation.postscale = call.postscale;
  if (operation.op == ReduceOp::kAdasum && operation.kind == OpKind::kReducescatter) {
    return unsupported("reduce op adasum is offered for allreduce only");
  }
  return {};
}

Status Draft::take_root(int32_t root) {
  const std::vector<int>& ranks = operation_->set->ranks;
  if (std::find(ranks.begin(), ranks.end(), root) == ranks.end()) {
    std::string allowed;
    for (const int rank : ranks) allowed += " " + std::to_string(rank);
    return invalid("root is " + std::to_string(root) + "; the ranks of the process set are" +
                   allowed);
  }
  operation_->root = root;
  return {};
}

// Notes what the caller has queued on its stream.
Status Draft::take_device(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) == kStreamPerThread) {
    return invalid(
        "stream is cudaStreamPerThread, another stream in every thread; one of cudaStreamCreate or "
        "NULL is needed");
  }
  Result<std::unique_ptr<device::Staging>> staging =
      operation_->engine->devices().stage(*device_, stream);
  if (!staging.ok()) return operation_->worded(staging.status());
  operation_->staging = std::move(staging).value();
  return {};
}

bool Draft::reads_inputs() const {
  return operation_->kind != OpKind::kBroadcast ||
         operation_->root == operation_->engine->topology().rank();
}

Status Draft::check_device(const GivenTensor& given, const Role& role, size_t bytes) const {
  if (given.device != device_) {
    return invalid(role.text() + ": is on " + device_text(given.device) + ", the first input on " +
                   device_text(device_));
  }
  if (!operation_->staging || bytes == 0) return {};
  const Status memory = operation_->staging->device().check_memory(given.data);
  return memory.ok() ? Status()
                     : Status(memory.code(),
                              operation_->subject() + ": " + role.text() + ": " + memory.message());
}

Status Draft::take_input(const GivenTensor& given, const Role& role) {
  HVD_TRY(check_device(given, role, reads_inputs() ? given.bytes : 0));
  OpTensor& tensor = operation_->tensors[role.index];
  tensor.in = given.data;
  tensor.out = nullptr;
  tensor.out_bytes = 0;
  tensor.caller_output = false;
  tensor.dtype = given.dtype;
  tensor.dims.assign(given.dims.begin(), given.dims.end());
  if (given.dims.empty() && !traits_of(operation_->kind).takes_scalars) {
    return invalid(role.text() + ": is a scalar; at least 1 dimension is needed");
  }
  set_output_dims(*operation_, tensor);
  return {};
}

Status Draft::take_output(const GivenTensor& given, const Role& role) {
  OpTensor& tensor = operation_->tensors[role.index];
  HVD_TRY(check_device(given, role, given.bytes));
  if (given.dtype != tensor.dtype) {
    return invalid(role.text() + ": dtype is " + dtype_name(given.dtype) + ", input has " +
                   dtype_name(tensor.dtype));
  }
  const bool size_known_later = traits_of(operation_->kind).ragged;
  if (!size_known_later && !std::equal(given.dims.begin(), given.dims.end(),
                                       tensor.out_dims.begin(), tensor.out_dims.end())) {
    return invalid(role.text() + ": shape is " + negotiation::shape_text(given.dims) + "; " +
                   negotiation::shape_text(tensor.out_dims) + " is needed");
  }
  tensor.out = given.data;
  tensor.out_bytes = given.bytes;
  tensor.caller_output = true;
  return check_placement(tensor, role);
}

// Where the output may share memory with the input: nowhere, exactly on it, or as hvd.h says for
// the operation.
Status Draft::check_placement(const OpTensor& tensor, const Role& role) const {
  if (!overlap(tensor.in, tensor.count() * dtype_size(tensor.dtype), tensor.out, tensor.out_bytes))
    return {};
  bool in_place = tensor.in == tensor.out && !traits_of(operation_->kind).ragged;
  if (operation_->kind == OpKind::kAllgather)
    return {};  // the offset of this rank's part is known once all have said their rows
  if (operation_->kind == OpKind::kReducescatter) {
    const int64_t members = operation_->set->size();
    const int64_t me = operation_->set->me;
    const int64_t first_row =
        me * (tensor.rows() / members) + std::min(me, tensor.rows() % members);
    const auto* own = static_cast<const std::byte*>(tensor.in) +
                      static_cast<size_t>(first_row) * tensor.row_bytes();
    in_place = in_place || tensor.out == own;
  }
  return in_place ? Status() : invalid(role.text() + ": overlaps the input without being in place");
}

Status Draft::make_output(size_t index) {
  if (traits_of(operation_->kind).ragged) return {};
  OpTensor& tensor = operation_->tensors[index];
  size_t bytes = dtype_size(tensor.dtype);
  for (const int64_t dim : tensor.out_dims) bytes *= static_cast<size_t>(dim);
  if (!operation_->staging) return operation_->own_output(tensor, bytes);
  Result<void*> memory = operation_->staging->allocate(bytes);
  if (!memory.ok()) return operation_->worded(memory.status());
  tensor.out = memory.value();
  return {};
}

Status Draft::check_reduction() const {
  const ReduceOp op = operation_->op;
  for (const OpTensor& tensor : operation_->tensors) {
    if (!dtype_reducible(tensor.dtype)) {
      return unsupported(std::string("dtype ") + dtype_name(tensor.dtype) +
                         " can be moved, not reduced; convert the input, for example to float32");
    }
    if (dtype_complex(tensor.dtype) && op != ReduceOp::kSum && op != ReduceOp::kAverage) {
      return unsupported(std::string("reduce op ") + reduce_op_name(op) + " is not defined for " +
                         dtype_name(tensor.dtype) + "; average and sum are");
    }
    if (op == ReduceOp::kAdasum && !dtype_floating(tensor.dtype)) {
      return unsupported(std::string("reduce op adasum needs a floating dtype, input has ") +
                         dtype_name(tensor.dtype));
    }
    if (op == ReduceOp::kAverage && tensor.dtype == DType::kBool) {
      return unsupported("reduce op average is not defined for bool");
    }
  }
  return {};
}

Status Draft::take_splits(const int64_t* splits) {
  const int64_t rows = operation_->tensors[0].rows();
  const int64_t members = operation_->set->size();
  if (splits == nullptr) {
    if (rows % members != 0) {
      return invalid("dimension 0 is " + std::to_string(rows) +
                     "; without splits it must be divisible by " + std::to_string(members));
    }
    operation_->variable.assign(static_cast<size_t>(members), rows / members);
    return {};
  }
  int64_t left = rows;
  for (int64_t member = 0; member < members; ++member) {
    const int64_t split = splits[member];
    if (split < 0 || split > left) {
      return invalid("splits[" + std::to_string(member) + "] is " + std::to_string(split) +
                     "; 0 to " + std::to_string(left) + " rows are left of " +
                     std::to_string(rows));
    }
    left -= split;
    operation_->variable.push_back(split);
  }
  return {};
}

Result<std::unique_ptr<Operation>> Draft::finish(const int64_t* send_splits) {
  const OpTraits& traits = traits_of(operation_->kind);
  if (traits.reduces) HVD_TRY(check_reduction());
  if (traits.takes_splits) {
    HVD_TRY(take_splits(send_splits));
  } else if (traits.ragged) {
    for (const OpTensor& tensor : operation_->tensors)
      operation_->variable.push_back(tensor.rows());
  }
  sign(*operation_);
  return std::move(operation_);
}

}  // namespace hvd::engine
