// SPDX-License-Identifier: Apache-2.0
#include "in_flight_op.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace hvd::tensorflow {
namespace {

// The engine's number for a type of TensorFlow, or -1.
hvd_dtype dtype_of(int type) {
  switch (type) {
    case kFloat: return HVD_FLOAT32;
    case kDouble: return HVD_FLOAT64;
    case kInt32: return HVD_INT32;
    case kUint8: return HVD_UINT8;
    case kInt16: return HVD_INT16;
    case kInt8: return HVD_INT8;
    case kInt64: return HVD_INT64;
    case kBool: return HVD_BOOL;
    case kBfloat16: return HVD_BFLOAT16;
    case kUint16: return HVD_UINT16;
    case kHalf: return HVD_FLOAT16;
    case kUint32: return HVD_UINT32;
    case kUint64: return HVD_UINT64;
    case kComplex64: return HVD_COMPLEX64;
    case kComplex128: return HVD_COMPLEX128;
    case kFloat8E5m2: return HVD_FLOAT8_E5M2;
    case kFloat8E4m3fn: return HVD_FLOAT8_E4M3FN;
    case kFloat8E4m3fnuz: return HVD_FLOAT8_E4M3FNUZ;
    case kFloat8E4m3b11fnuz: return HVD_FLOAT8_E4M3B11FNUZ;
    case kFloat8E5m2fnuz: return HVD_FLOAT8_E5M2FNUZ;
    case kInt4: return HVD_INT4;
    case kUint4: return HVD_UINT4;
    default: return -1;
  }
}

int code_of(hvd_status status) {
  switch (status) {
    case HVD_ERR_INVALID_ARGUMENT:
    case HVD_ERR_NOT_FOUND:
    case HVD_ERR_ALREADY_EXISTS: return kInvalidArgument;
    case HVD_ERR_INVALID_STATE:
    case HVD_ERR_MISMATCH: return kFailedPrecondition;
    case HVD_ERR_UNSUPPORTED: return kUnimplemented;
    case HVD_ERR_OUT_OF_MEMORY: return kResourceExhausted;
    case HVD_ERR_CANCELLED: return kAborted;
    case HVD_ERR_TIMEOUT: return kDeadlineExceeded;
    default: return kUnknown;  // what Horovod's elastic programs look for
  }
}

size_t bytes_of(const hvd_tensor& tensor) {
  size_t bytes = hvd_dtype_size(tensor.dtype);
  for (int32_t place = 0; place < tensor.ndim; ++place)
    bytes *= static_cast<size_t>(tensor.shape[place]);
  return bytes;
}

// A reference to the set with this id, or NULL.
struct FoundSet {
  FoundSet(hvd_context* context, int32_t id, hvd_error* error) {
    if (id == 0)
      set = hvd_process_set_world(context);
    else
      hvd_process_set_find(context, id, &set, error);
  }
  ~FoundSet() { hvd_process_set_free(set); }
  FoundSet(const FoundSet&) = delete;
  FoundSet& operator=(const FoundSet&) = delete;

  hvd_process_set* set = nullptr;
};

}  // namespace

InFlightOp::~InFlightOp() {
  for (TF_Tensor* tensor : held_) tf().DeleteTensor(tensor);
}

void InFlightOp::start(std::unique_ptr<InFlightOp> op) {
  hvd_handle* handle = nullptr;
  try {
    const Session session;
    hvd_error error = HVD_ERROR_INIT;
    if (session.context() == nullptr) {
      op->fail(kFailedPrecondition, "Horovod has not been initialized; use hvd.init().");
    } else if (const FoundSet found(session.context(), op->attributes().process_set, &error);
               found.set == nullptr) {
      op->fail(error);
    } else if (op->read_inputs() && op->make_outputs(found.set)) {
      op->submit(session, found.set, &handle);
    }
  } catch (const std::exception& error) {
    op->fail(kInternal, error.what());
  }
  if (handle == nullptr) {
    finish(std::move(op));
    return;
  }
  // From here on the callback owns the op. It is called also if the operation has ended already.
  hvd_handle_then(handle, &InFlightOp::ended, op.release(), nullptr);
  hvd_handle_free(handle);
}

void InFlightOp::finish(std::unique_ptr<InFlightOp> op) {
  Collective& collective = op->collective_;
  const std::function<void()> done = std::move(op->done_);
  op.reset();
  collective.next();  // before `done`, after which the node may be gone
  done();
}

bool InFlightOp::fail(int code, const std::string& message) {
  const Status status(code, message.c_str());
  tf().OpKernelContext_Failure(context_, status.get());
  return false;
}

bool InFlightOp::fail(const hvd_error& error) { return fail(code_of(error.status), error.message); }

bool InFlightOp::read_inputs() {
  const KindTraits& traits = kKindTraits[attributes().kind];
  if (!traits.moves) return true;
  const int count = traits.splits ? 1 : tf().NumInputs(context_);
  for (int index = 0; index < count; ++index) {
    if (!read_input(index, traits.same)) return false;
  }
  return !traits.splits || read_splits();
}

bool InFlightOp::read_input(int index, bool into_output) {
  const Status status;
  TF_Tensor* tensor = nullptr;
  tf().GetInput(context_, index, &tensor, status.get());
  if (!status.ok()) return fail(kInternal, status.message());
  hvd_tensor described{};
  described.ndim = tf().NumDims(tensor);
  described.dtype = dtype_of(tf().TensorType(tensor));
  if (described.dtype < 0) {
    const std::string type = std::to_string(tf().TensorType(tensor));
    tf().DeleteTensor(tensor);
    return fail(kInvalidArgument, "tensors of TensorFlow's type " + type +
                                      " (a number of tf.dtypes.DType.as_datatype_enum) " +
                                      "cannot be sent");
  }
  described.device_type = HVD_CPU;
  shapes_.push_back(std::make_unique<int64_t[]>(static_cast<size_t>(described.ndim) + 1));
  int64_t* shape = shapes_.back().get();
  for (int32_t place = 0; place < described.ndim; ++place) shape[place] = tf().Dim(tensor, place);
  described.shape = shape;
  described.data = tf().TensorData(tensor);
  types_.push_back(tf().TensorType(tensor));
  if (!into_output) {
    held_.push_back(tensor);
    inputs_.push_back(described);
    return true;
  }
  // TensorFlow gives an input's buffer to the output only if nobody else holds it.
  tf().DeleteTensor(tensor);
  int forwarded = -1;
  TF_Tensor* output = tf().ForwardInputOrAllocateOutput(context_, &index, 1, index, shape,
                                                        described.ndim, &forwarded, status.get());
  if (!status.ok()) return fail(kResourceExhausted, status.message());
  held_.push_back(output);
  if (forwarded < 0) {
    tf().GetInput(context_, index, &tensor, status.get());
    if (!status.ok()) return fail(kInternal, status.message());
    held_.push_back(tensor);
  }
  inputs_.push_back(described);
  outputs_.push_back(described);
  outputs_.back().data = tf().TensorData(output);
  return true;
}

bool InFlightOp::read_splits() {
  const Status status;
  TF_Tensor* tensor = nullptr;
  tf().GetInput(context_, 1, &tensor, status.get());
  if (!status.ok()) return fail(kInternal, status.message());
  const auto* rows = static_cast<const int32_t*>(tf().TensorData(tensor));
  splits_.assign(rows, rows + tf().TensorByteSize(tensor) / sizeof(int32_t));
  tf().DeleteTensor(tensor);
  return true;
}

bool InFlightOp::make_outputs(hvd_process_set* set) {
  const int32_t place = hvd_process_set_rank(set);
  const int32_t count = hvd_process_set_size(set);
  if (!splits_.empty() && static_cast<int32_t>(splits_.size()) != count) {
    return fail(kInvalidArgument, "alltoall: splits has " + std::to_string(splits_.size()) +
                                      " numbers, the process set has " + std::to_string(count) +
                                      " ranks");
  }
  const bool scalar = std::any_of(inputs_.begin(), inputs_.end(),
                                  [](const hvd_tensor& input) { return input.ndim == 0; });
  // Where the call is wrong, the engine says so.
  if (attributes().kind != Kind::kReducescatter || place < 0 || scalar) return true;
  for (size_t index = 0; index < inputs_.size(); ++index) {
    hvd_tensor part = inputs_[index];
    shapes_.push_back(std::make_unique<int64_t[]>(static_cast<size_t>(part.ndim)));
    int64_t* shape = shapes_.back().get();
    std::copy(part.shape, part.shape + part.ndim, shape);
    shape[0] = part.shape[0] / count + (place < part.shape[0] % count ? 1 : 0);
    part.shape = shape;
    const Status status;
    TF_Tensor* output = tf().AllocateOutput(context_, static_cast<int>(index), types_[index], shape,
                                            part.ndim, bytes_of(part), status.get());
    if (!status.ok()) return fail(kResourceExhausted, status.message());
    held_.push_back(output);
    part.data = tf().TensorData(output);
    outputs_.push_back(part);
  }
  return true;
}

bool InFlightOp::submit(const Session& session, hvd_process_set* set, hvd_handle** handle) {
  const Attributes& node = attributes();
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = node.name.empty() ? nullptr : node.name.c_str();
  options.set = set;
  options.reduce_op = node.reduce_op;
  options.root = node.root;
  options.prescale = node.prescale;
  options.postscale = node.postscale;
  hvd_error error = HVD_ERROR_INIT;
  return submit_by_kind(session.context(), options, handle, &error) == HVD_OK || fail(error);
}

hvd_status InFlightOp::submit_by_kind(hvd_context* context, const hvd_op_options& options,
                                      hvd_handle** handle, hvd_error* error) {
  const hvd_tensor* inputs = inputs_.data();
  const hvd_tensor* outputs = outputs_.empty() ? nullptr : outputs_.data();
  const Kind kind = attributes().kind;
  if (const auto plain = kPlainFunctions[kind]; plain != nullptr)
    return plain(context, &options, handle, error);
  if (attributes().grouped)
    return kGroupedFunctions[kind](context, inputs, outputs, inputs_.size(), &options, handle,
                                   error);
  if (const auto single = kSingleFunctions[kind]; single != nullptr) {
    return single(context, inputs, outputs, &options, handle, error);
  }
  return hvd_alltoallv_async(context, inputs, splits_.empty() ? nullptr : splits_.data(), outputs,
                             &options, handle, error);
}

void InFlightOp::ended(void* user_data, hvd_handle* handle, hvd_status status) noexcept {
  std::unique_ptr<InFlightOp> op(static_cast<InFlightOp*>(user_data));
  try {
    op->collect(handle, status);
  } catch (const std::exception& error) {
    op->fail(kInternal, error.what());
  }
  finish(std::move(op));
}

void InFlightOp::collect(hvd_handle* handle, hvd_status status) {
  if (status != HVD_OK) {
    hvd_error error = HVD_ERROR_INIT;
    hvd_test(handle, &error);
    fail(error);
    return;
  }
  const KindTraits& traits = kKindTraits[attributes().kind];
  if (traits.splits) return collect_splits(handle);
  if (traits.moves) return collect_gathered(handle);
  if (attributes().kind != Kind::kJoin) return;
  const Status made;
  TF_Tensor* output =
      tf().AllocateOutput(context_, 0, kInt32, nullptr, 0, sizeof(int32_t), made.get());
  if (!made.ok()) {
    fail(kResourceExhausted, made.message());
    return;
  }
  held_.push_back(output);
  hvd_handle_last_joined_rank(handle, static_cast<int32_t*>(tf().TensorData(output)), nullptr);
}

void InFlightOp::collect_gathered(hvd_handle* handle) {
  for (size_t index = outputs_.size(); index < inputs_.size(); ++index) {
    hvd_tensor result{};
    hvd_error error = HVD_ERROR_INIT;
    if (hvd_handle_output(handle, index, &result, &error) != HVD_OK) {
      fail(error);
      return;
    }
    const Status status;
    const size_t bytes = bytes_of(result);
    TF_Tensor* output = tf().AllocateOutput(context_, static_cast<int>(index), types_[index],
                                            result.shape, result.ndim, bytes, status.get());
    if (!status.ok()) {
      fail(kResourceExhausted, status.message());
      return;
    }
    held_.push_back(output);
    if (bytes != 0) std::memcpy(tf().TensorData(output), result.data, bytes);
  }
}

void InFlightOp::collect_splits(hvd_handle* handle) {
  collect_gathered(handle);
  size_t count = 0;
  hvd_handle_received_splits(handle, nullptr, &count, nullptr);
  std::vector<int64_t> rows(count);
  hvd_handle_received_splits(handle, rows.data(), &count, nullptr);
  const Status status;
  const auto size = static_cast<int64_t>(count);
  TF_Tensor* output =
      tf().AllocateOutput(context_, 1, kInt32, &size, 1, count * sizeof(int32_t), status.get());
  if (!status.ok()) {
    fail(kResourceExhausted, status.message());
    return;
  }
  held_.push_back(output);
  std::transform(rows.begin(), rows.end(), static_cast<int32_t*>(tf().TensorData(output)),
                 [](int64_t number) { return static_cast<int32_t>(number); });
}

}  // namespace hvd::tensorflow
