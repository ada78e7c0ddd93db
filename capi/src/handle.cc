// SPDX-License-Identifier: Apache-2.0
#include "boundary.h"

using hvd::Code;
using hvd::Duration;
using hvd::OpKind;
using hvd::Result;
using hvd::Status;
using hvd::capi::guard;
using hvd::capi::handle_of;
using hvd::capi::null_argument;
using hvd::capi::operation_of;
using hvd::engine::Operation;

namespace {

// The C callback behind Operation's: the pair lives until the call.
struct Continuation {
  hvd_completion_fn fn;
  void* user_data;
};

void continue_with(void* data, Operation* operation, int32_t status) {
  const std::unique_ptr<Continuation> continuation(static_cast<Continuation*>(data));
  continuation->fn(continuation->user_data, handle_of(operation), status);
}

Status succeeded(const Operation* operation) {
  return operation == nullptr ? null_argument("handle") : operation->has_results();
}

}  // namespace

hvd_status hvd_wait(hvd_handle* handle, int64_t timeout_ns, hvd_error* error) {
  return guard(error, [&]() -> Status {
    Operation* operation = operation_of(handle);
    if (operation == nullptr) return null_argument("handle");
    if (operation->engine->forked()) return hvd::capi::forked_context();
    if (!operation->done()) {
      const hvd::Time deadline =
          timeout_ns < 0 ? hvd::kNever : hvd::deadline_after(hvd::now(), Duration(timeout_ns));
      HVD_TRY(operation->engine->wait(*operation, deadline));
    }
    return operation->result();
  });
}

hvd_status hvd_test(hvd_handle* handle, hvd_error* error) {
  return guard(error, [&]() -> Status {
    Operation* operation = operation_of(handle);
    if (operation == nullptr) return null_argument("handle");
    if (operation->engine->forked()) return hvd::capi::forked_context();
    return operation->engine->test(*operation);
  });
}

hvd_status hvd_handle_then(hvd_handle* handle, hvd_completion_fn fn, void* user_data,
                           hvd_error* error) {
  return guard(error, [&]() -> Status {
    Operation* operation = operation_of(handle);
    if (operation == nullptr) return null_argument("handle");
    if (fn == nullptr) return null_argument("fn");
    if (operation->engine->forked()) return hvd::capi::forked_context();
    auto continuation = std::make_unique<Continuation>(Continuation{fn, user_data});
    HVD_TRY(operation->engine->then(*operation, continue_with, continuation.get()));
    continuation.release();  // the callback owns it
    return {};
  });
}

size_t hvd_handle_output_count(const hvd_handle* handle) {
  return handle == nullptr ? 0 : operation_of(handle)->tensors.size();
}

hvd_status hvd_handle_output(hvd_handle* handle, size_t index, hvd_tensor* out, hvd_error* error) {
  return guard(error, [&]() -> Status {
    const Operation* operation = operation_of(handle);
    HVD_TRY(succeeded(operation));
    if (out == nullptr) return null_argument("out");
    if (index >= operation->tensors.size()) {
      return Status(Code::kInvalidArgument,
                    operation->subject() + ": index is " + std::to_string(index) + ", there are " +
                        std::to_string(operation->tensors.size()) + " results");
    }
    const hvd::engine::OpTensor& tensor = operation->tensors[index];
    *out = hvd_tensor{};
    out->data = tensor.out;
    out->shape = tensor.out_dims.data();
    out->ndim = static_cast<int32_t>(tensor.out_dims.size());
    out->dtype = static_cast<hvd_dtype>(tensor.dtype);
    out->device_type = operation->staging ? HVD_CUDA : HVD_CPU;
    out->device_id = operation->staging ? operation->staging->device().id() : 0;
    return {};
  });
}

hvd_status hvd_handle_received_splits(hvd_handle* handle, int64_t* splits, size_t* split_count,
                                      hvd_error* error) {
  return guard(error, [&]() -> Status {
    const Operation* operation = operation_of(handle);
    HVD_TRY(succeeded(operation));
    if (split_count == nullptr) return null_argument("split_count");
    if (operation->kind != OpKind::kAlltoall && operation->kind != OpKind::kGather) {
      return Status(Code::kInvalidArgument,
                    operation->subject() + ": only alltoall and gather have received splits");
    }
    return hvd::capi::give_array(operation->received_rows, splits, split_count, "received splits");
  });
}

hvd_status hvd_handle_last_joined_rank(hvd_handle* handle, int32_t* rank, hvd_error* error) {
  return guard(error, [&]() -> Status {
    const Operation* operation = operation_of(handle);
    HVD_TRY(succeeded(operation));
    if (rank == nullptr) return null_argument("rank");
    if (operation->kind != OpKind::kJoin) {
      return Status(Code::kInvalidArgument,
                    operation->subject() + ": only join has a last joined rank");
    }
    *rank = operation->last_joined;
    return {};
  });
}

void hvd_handle_free(hvd_handle* handle) {
  if (handle == nullptr) return;
  operation_of(handle)->drop_reference_of_caller();
}

hvd_status hvd_completions_fd(hvd_context* context, int32_t* fd, hvd_error* error) {
  return guard(error, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    if (fd == nullptr) return null_argument("fd");
    if (context->engine->forked()) return hvd::capi::forked_context();
    const Result<int> descriptor = context->engine->completions().descriptor();
    if (!descriptor.ok()) return descriptor.status();
    *fd = descriptor.value();
    return {};
  });
}

hvd_handle* hvd_completions_pop(hvd_context* context) {
  if (context == nullptr || context->engine->forked()) return nullptr;
  return handle_of(context->engine->completions().pop());
}
