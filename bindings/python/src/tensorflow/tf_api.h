// SPDX-License-Identifier: Apache-2.0
// TensorFlow's C interface for operations and kernels, declared here and looked up in the
// TensorFlow of the process.
//
// Nothing of TensorFlow is needed to build, and one build serves every TensorFlow that exports
// these functions: they are C functions on opaque types, which TensorFlow keeps.
#ifndef HVD_PYTHON_TENSORFLOW_TF_API_H
#define HVD_PYTHON_TENSORFLOW_TF_API_H

#include <cstddef>
#include <cstdint>

extern "C" {

struct TF_Status;
struct TF_Tensor;
struct TF_OpDefinitionBuilder;
struct TF_ShapeInferenceContext;
struct TF_ShapeHandle;
struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;

struct TF_StringView {
  const char* data;
  size_t size;
};

using ShapeFunction = void (*)(TF_ShapeInferenceContext*, TF_Status*);
using CreateFunction = void* (*)(TF_OpKernelConstruction*);
using ComputeFunction = void (*)(void*, TF_OpKernelContext*);
using AsyncComputeFunction = void (*)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*);
using DeleteFunction = void (*)(void*);

}  // extern "C"

namespace hvd::tensorflow {

// TF_Code
enum Code : int {
  kOk = 0,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kUnimplemented = 12,
  kInternal = 13,
};

// TF_DataType, as far as the engine has them.
enum DataType : int {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kComplex64 = 8,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kUint32 = 22,
  kUint64 = 23,
  // Not every TensorFlow has these.
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
  kFloat8E4m3fnuz = 26,
  kFloat8E4m3b11fnuz = 27,
  kFloat8E5m2fnuz = 28,
  kInt4 = 29,
  kUint4 = 30,
};

// Result, name without TF_, arguments.
// clang-format off
#define HVD_TF_FUNCTIONS(X)                                                                        \
  X(TF_Status*, NewStatus, ())                                                                     \
  X(void, DeleteStatus, (TF_Status*))                                                              \
  X(void, SetStatus, (TF_Status*, int, const char*))                                               \
  X(int, GetCode, (const TF_Status*))                                                              \
  X(const char*, Message, (const TF_Status*))                                                      \
  X(void, DeleteTensor, (TF_Tensor*))                                                              \
  X(int, TensorType, (const TF_Tensor*))                                                           \
  X(int, NumDims, (const TF_Tensor*))                                                              \
  X(int64_t, Dim, (const TF_Tensor*, int))                                                         \
  X(size_t, TensorByteSize, (const TF_Tensor*))                                                    \
  X(void*, TensorData, (const TF_Tensor*))                                                         \
  X(TF_OpDefinitionBuilder*, NewOpDefinitionBuilder, (const char*))                                \
  X(void, RegisterOpDefinition, (TF_OpDefinitionBuilder*, TF_Status*))                             \
  X(void, OpDefinitionBuilderAddAttr, (TF_OpDefinitionBuilder*, const char*))                      \
  X(void, OpDefinitionBuilderAddInput, (TF_OpDefinitionBuilder*, const char*))                     \
  X(void, OpDefinitionBuilderAddOutput, (TF_OpDefinitionBuilder*, const char*))                    \
  X(void, OpDefinitionBuilderSetIsStateful, (TF_OpDefinitionBuilder*, bool))                       \
  X(void, OpDefinitionBuilderSetShapeInferenceFunction, (TF_OpDefinitionBuilder*, ShapeFunction))  \
  X(int64_t, ShapeInferenceContextNumInputs, (TF_ShapeInferenceContext*))                          \
  X(TF_ShapeHandle*, NewShapeHandle, ())                                                           \
  X(void, DeleteShapeHandle, (TF_ShapeHandle*))                                                    \
  X(void, ShapeInferenceContextGetInput,                                                           \
    (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))                                 \
  X(void, ShapeInferenceContextSetOutput,                                                          \
    (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))                                 \
  X(void, ShapeInferenceContextSetUnknownShape, (TF_ShapeInferenceContext*, TF_Status*))           \
  X(TF_ShapeHandle*, ShapeInferenceContextScalar, (TF_ShapeInferenceContext*))                     \
  X(TF_ShapeHandle*, ShapeInferenceContextVectorFromSize, (TF_ShapeInferenceContext*, size_t))     \
  X(int, ShapeInferenceContextRankKnown, (TF_ShapeInferenceContext*, TF_ShapeHandle*))             \
  X(int64_t, ShapeInferenceContextRank, (TF_ShapeInferenceContext*, TF_ShapeHandle*))              \
  X(void, ShapeInferenceContextSubshape,                                                           \
    (TF_ShapeInferenceContext*, TF_ShapeHandle*, int64_t, int64_t, TF_ShapeHandle*, TF_Status*))   \
  X(void, ShapeInferenceContextConcatenateShapes,                                                  \
    (TF_ShapeInferenceContext*, TF_ShapeHandle*, TF_ShapeHandle*, TF_ShapeHandle*, TF_Status*))    \
  X(TF_KernelBuilder*, NewKernelBuilder,                                                           \
    (const char*, const char*, CreateFunction, ComputeFunction, DeleteFunction))                   \
  X(TF_KernelBuilder*, NewAsyncKernelBuilder,                                                      \
    (const char*, const char*, CreateFunction, AsyncComputeFunction, DeleteFunction))              \
  X(void, KernelBuilder_HostMemory, (TF_KernelBuilder*, const char*))                              \
  X(void, RegisterKernelBuilder, (const char*, TF_KernelBuilder*, TF_Status*))                     \
  X(void, RunAsyncOpKernelDoneCallback, (TF_AsyncOpKernelDoneCallback*))                           \
  X(void, OpKernelConstruction_GetAttrInt64,                                                       \
    (TF_OpKernelConstruction*, const char*, int64_t*, TF_Status*))                                 \
  X(void, OpKernelConstruction_GetAttrFloat,                                                       \
    (TF_OpKernelConstruction*, const char*, float*, TF_Status*))                                   \
  X(void, OpKernelConstruction_GetAttrBool,                                                        \
    (TF_OpKernelConstruction*, const char*, unsigned char*, TF_Status*))                           \
  X(void, OpKernelConstruction_GetAttrString,                                                      \
    (TF_OpKernelConstruction*, const char*, char*, size_t, TF_Status*))                            \
  X(void, OpKernelConstruction_GetAttrSize,                                                        \
    (TF_OpKernelConstruction*, const char*, int32_t*, int32_t*, TF_Status*))                       \
  X(TF_StringView, OpKernelConstruction_GetName, (TF_OpKernelConstruction*))                       \
  X(void, OpKernelConstruction_Failure, (TF_OpKernelConstruction*, TF_Status*))                    \
  X(int, NumInputs, (TF_OpKernelContext*))                                                         \
  X(void, GetInput, (TF_OpKernelContext*, int, TF_Tensor**, TF_Status*))                           \
  X(void, SetOutput, (TF_OpKernelContext*, int, const TF_Tensor*, TF_Status*))                     \
  X(void, OpKernelContext_Failure, (TF_OpKernelContext*, TF_Status*))                              \
  X(TF_Tensor*, AllocateOutput,                                                                    \
    (TF_OpKernelContext*, int, int, const int64_t*, int, size_t, TF_Status*))                      \
  X(TF_Tensor*, ForwardInputOrAllocateOutput,                                                      \
    (TF_OpKernelContext*, const int*, int, int, const int64_t*, int, int*, TF_Status*))
// clang-format on

struct Api {
#define HVD_TF_POINTER(result, name, arguments) result(*name) arguments = nullptr;
  HVD_TF_FUNCTIONS(HVD_TF_POINTER)
#undef HVD_TF_POINTER
};

// The functions of the TensorFlow in this process; load_api must have returned "".
const Api& tf();

// Looks the functions up. "" or what is missing, as a text that lives for ever.
const char* load_api();

// A TF_Status for one call.
class Status {
 public:
  Status() : status_(tf().NewStatus()) {}
  Status(int code, const char* message) : Status() { tf().SetStatus(status_, code, message); }
  ~Status() { tf().DeleteStatus(status_); }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  TF_Status* get() const { return status_; }
  bool ok() const { return tf().GetCode(status_) == kOk; }
  const char* message() const { return tf().Message(status_); }

 private:
  TF_Status* status_;
};

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_TF_API_H
