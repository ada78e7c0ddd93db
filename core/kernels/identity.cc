// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>

#include "kernels/reduce.h"

namespace hvd::kernels {
namespace {

// The four constants of a type.
template <class T>
struct Constants {
  T zero, one, highest, lowest;
  // Sets `value` to the constant that leaves others as they are under `op`; false if `op` has none.
  bool get(ReduceOp op, T& value) const noexcept {
    switch (op) {
      case ReduceOp::kAverage:
      case ReduceOp::kSum: value = zero; return true;
      case ReduceOp::kProduct: value = one; return true;
      case ReduceOp::kMin: value = highest; return true;
      case ReduceOp::kMax: value = lowest; return true;
      case ReduceOp::kAdasum: break;
    }
    return false;
  }
};

template <class T>
void fill(const Constants<T>& constants, ReduceOp op, void* dst, size_t count) noexcept {
  T value;
  if (!constants.get(op, value)) return;
  char* to = static_cast<char*>(dst);
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i * sizeof value, &value, sizeof value);
}

template <class T>
constexpr Constants<T> kInts = {0, 1, std::numeric_limits<T>::max(),
                                std::numeric_limits<T>::lowest()};

template <class T>
constexpr Constants<T> kFloats = {0, 1, std::numeric_limits<T>::infinity(),
                                  -std::numeric_limits<T>::infinity()};

// Bit patterns.
constexpr Constants<uint16_t> kFloat16s = {0, 0x3c00, 0x7c00, 0xfc00};
constexpr Constants<uint16_t> kBfloat16s = {0, 0x3f80, 0x7f80, 0xff80};
constexpr Constants<uint8_t> kBools = {0, 1, 1, 0};

}  // namespace

void fill_identity(DType dtype, ReduceOp op, void* dst, size_t count) noexcept {
  switch (dtype) {
    case DType::kUint8: return fill(kInts<uint8_t>, op, dst, count);
    case DType::kInt8: return fill(kInts<int8_t>, op, dst, count);
    case DType::kUint16: return fill(kInts<uint16_t>, op, dst, count);
    case DType::kInt16: return fill(kInts<int16_t>, op, dst, count);
    case DType::kInt32: return fill(kInts<int32_t>, op, dst, count);
    case DType::kInt64: return fill(kInts<int64_t>, op, dst, count);
    case DType::kFloat16: return fill(kFloat16s, op, dst, count);
    case DType::kFloat32: return fill(kFloats<float>, op, dst, count);
    case DType::kFloat64: return fill(kFloats<double>, op, dst, count);
    case DType::kBool: return fill(kBools, op, dst, count);
    case DType::kBfloat16: return fill(kBfloat16s, op, dst, count);
    case DType::kUint32: return fill(kInts<uint32_t>, op, dst, count);
    case DType::kUint64: return fill(kInts<uint64_t>, op, dst, count);
    case DType::kComplex64: return fill(kFloats<float>, op, dst, 2 * count);
    case DType::kComplex128: return fill(kFloats<double>, op, dst, 2 * count);
    default: return;  // only moved
  }
}

}  // namespace hvd::kernels
