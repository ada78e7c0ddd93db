// SPDX-License-Identifier: Apache-2.0
#include "backend/mpi/reduction.h"

#include <atomic>
#include <cstddef>
#include <mutex>

namespace hvd::backend::mpi {
namespace {

// The numbers of hvd.h.
enum DType : int32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBool,
  kBfloat16
};
enum Op : int32_t { kSum = 1, kMin = 3, kMax = 4, kProduct = 5 };

// Operators get no context of their own, so what they need is the process's.
std::atomic<Reduction::Kernel> reduce{nullptr};
std::atomic<const Api*> types{nullptr};

int32_t dtype_of(Handle type) {
  const Api& api = *types;
  const Handle handles[] = {api.uint8, api.int8,  api.uint16, api.int16,
                            api.int32, api.int64, nullptr,    api.float32};
  for (int32_t dtype = 0; dtype <= kFloat32; ++dtype) {
    if (type == handles[dtype]) return dtype;
  }
  return kFloat64;
}

template <int32_t op>
void combine(void* in, void* inout, int* length, Handle* type) {
  reduce.load()(dtype_of(*type), op, inout, in, inout, static_cast<size_t>(*length));
}

template <int32_t op>
void combine_truth(void* in, void* inout, int* length, Handle*) {
  reduce.load()(kBool, op, inout, in, inout, static_cast<size_t>(*length));
}

struct Operators {
  Handle min = nullptr, max = nullptr, any = nullptr, all = nullptr;
};

const Operators& operators(const Api& api, Reduction::Kernel kernel) {
  static std::once_flag once;
  static Operators made;
  std::call_once(once, [&] {
    reduce = kernel;
    types = &api;
    api.Op_create(combine<kMin>, 1, &made.min);
    api.Op_create(combine<kMax>, 1, &made.max);
    api.Op_create(combine_truth<kMax>, 1, &made.any);
    api.Op_create(combine_truth<kMin>, 1, &made.all);
  });
  return made;
}

}  // namespace

bool Reduction::known(int32_t dtype, int32_t op) {
  const bool own = dtype == kFloat16 || dtype > kBool;  // our kernels reduce them
  return !own && (op == kSum || op == kProduct || op == kMin || op == kMax);
}

Reduction Reduction::find(const Api& api, int32_t dtype, int32_t op, Kernel kernel) {
  const Operators& own = operators(api, kernel);
  if (dtype == kBool) return {api.uint8, op == kSum || op == kMax ? own.any : own.all};
  const Handle handles[] = {api.uint8, api.int8, api.uint16,  api.int16,  api.int32,
                            api.int64, nullptr,  api.float32, api.float64};
  const Handle type = handles[dtype];
  switch (op) {
    case kSum: return {type, api.sum};
    case kProduct: return {type, api.product};
    case kMin: return {type, own.min};
    default: return {type, own.max};
  }
}

}  // namespace hvd::backend::mpi
