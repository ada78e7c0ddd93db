// SPDX-License-Identifier: Apache-2.0
#include "request.h"

using hvd::OpKind;
using hvd::Result;
using hvd::Status;
using hvd::capi::null_argument;
using hvd::capi::Request;
using hvd::engine::Operation;

namespace {

hvd_status submit(const Request& request, hvd_handle** out_handle, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (request.context == nullptr) return null_argument("context");
    if (out_handle == nullptr) return null_argument("out_handle");
    Result<std::unique_ptr<Operation>> operation = hvd::capi::make_operation(request);
    if (!operation.ok()) return operation.status();
    Result<Operation*> handle = request.context->engine->submit(std::move(operation).value());
    if (!handle.ok()) return handle.status();
    *out_handle = hvd::capi::handle_of(handle.value());
    return {};
  });
}

// For operations of exactly one tensor.
hvd_status submit_one(OpKind kind, hvd_context* context, const hvd_tensor* input,
                      const hvd_tensor* output, const int64_t* send_splits,
                      const hvd_op_options* options, hvd_handle** out_handle, hvd_error* error) {
  if (input == nullptr) return hvd::capi::report(error, null_argument("input"));
  return submit({context, kind, {input, 1}, output, send_splits, options}, out_handle, error);
}

hvd_status submit_group(OpKind kind, hvd_context* context, const hvd_tensor* inputs,
                        const hvd_tensor* outputs, size_t count, const hvd_op_options* options,
                        hvd_handle** out_handle, hvd_error* error) {
  if (inputs == nullptr) return hvd::capi::report(error, null_argument("inputs"));
  return submit({context, kind, {inputs, count}, outputs, nullptr, options}, out_handle, error);
}

}  // namespace

hvd_status hvd_allreduce_async(hvd_context* context, const hvd_tensor* input,
                               const hvd_tensor* output, const hvd_op_options* options,
                               hvd_handle** out_handle, hvd_error* error) {
  return submit_one(OpKind::kAllreduce, context, input, output, nullptr, options, out_handle,
                    error);
}

hvd_status hvd_grouped_allreduce_async(hvd_context* context, const hvd_tensor* inputs,
                                       const hvd_tensor* outputs, size_t count,
                                       const hvd_op_options* options, hvd_handle** out_handle,
                                       hvd_error* error) {
  return submit_group(OpKind::kAllreduce, context, inputs, outputs, count, options, out_handle,
                      error);
}

hvd_status hvd_allgatherv_async(hvd_context* context, const hvd_tensor* input,
                                const hvd_tensor* output, const hvd_op_options* options,
                                hvd_handle** out_handle, hvd_error* error) {
  return submit_one(OpKind::kAllgather, context, input, output, nullptr, options, out_handle,
                    error);
}

hvd_status hvd_grouped_allgatherv_async(hvd_context* context, const hvd_tensor* inputs,
                                        const hvd_tensor* outputs, size_t count,
                                        const hvd_op_options* options, hvd_handle** out_handle,
                                        hvd_error* error) {
  return submit_group(OpKind::kAllgather, context, inputs, outputs, count, options, out_handle,
                      error);
}

hvd_status hvd_broadcast_async(hvd_context* context, const hvd_tensor* input,
                               const hvd_tensor* output, const hvd_op_options* options,
                               hvd_handle** out_handle, hvd_error* error) {
  return submit_one(OpKind::kBroadcast, context, input, output, nullptr, options, out_handle,
                    error);
}

hvd_status hvd_alltoallv_async(hvd_context* context, const hvd_tensor* input,
                               const int64_t* send_splits, const hvd_tensor* output,
                               const hvd_op_options* options, hvd_handle** out_handle,
                               hvd_error* error) {
  return submit_one(OpKind::kAlltoall, context, input, output, send_splits, options, out_handle,
                    error);
}

hvd_status hvd_reducescatter_async(hvd_context* context, const hvd_tensor* input,
                                   const hvd_tensor* output, const hvd_op_options* options,
                                   hvd_handle** out_handle, hvd_error* error) {
  return submit_one(OpKind::kReducescatter, context, input, output, nullptr, options, out_handle,
                    error);
}

hvd_status hvd_grouped_reducescatter_async(hvd_context* context, const hvd_tensor* inputs,
                                           const hvd_tensor* outputs, size_t count,
                                           const hvd_op_options* options, hvd_handle** out_handle,
                                           hvd_error* error) {
  return submit_group(OpKind::kReducescatter, context, inputs, outputs, count, options, out_handle,
                      error);
}

hvd_status hvd_gatherv_async(hvd_context* context, const hvd_tensor* input,
                             const hvd_tensor* output, const hvd_op_options* options,
                             hvd_handle** out_handle, hvd_error* error) {
  return submit_one(OpKind::kGather, context, input, output, nullptr, options, out_handle, error);
}

hvd_status hvd_barrier_async(hvd_context* context, const hvd_op_options* options,
                             hvd_handle** out_handle, hvd_error* error) {
  return submit({context, OpKind::kBarrier, {}, nullptr, nullptr, options}, out_handle, error);
}

hvd_status hvd_join_async(hvd_context* context, const hvd_op_options* options,
                          hvd_handle** out_handle, hvd_error* error) {
  return submit({context, OpKind::kJoin, {}, nullptr, nullptr, options}, out_handle, error);
}

hvd_status hvd_burst_begin(hvd_context* context, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    if (context->engine->forked()) return hvd::capi::forked_context();
    context->engine->begin_burst();
    return {};
  });
}

hvd_status hvd_burst_end(hvd_context* context, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    if (context->engine->forked()) return hvd::capi::forked_context();
    return context->engine->end_burst();
  });
}
