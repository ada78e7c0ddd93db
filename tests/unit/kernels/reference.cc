// SPDX-License-Identifier: Apache-2.0
#include "reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

namespace hvd::kernels::test {
namespace {

// The shape of a half type: stored mantissa bits, exponent of the smallest normal number, exponent
// of infinity.
struct HalfShape {
  int mantissa, lowest, infinity;
};

HalfShape shape_of(DType dtype) {
  return dtype == DType::kFloat16 ? HalfShape{10, -14, 16} : HalfShape{7, -126, 128};
}

template <class T>
T element(const Bytes& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

template <class T>
void put(Bytes& bytes, size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
}

template <class F>
F float_op(ReduceOp op, F a, F b) {
  if (op == ReduceOp::kSum) return a + b;
  if (op == ReduceOp::kProduct) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<F>::quiet_NaN();
  const bool a_below_b = a == b ? std::signbit(a) && !std::signbit(b) : a < b;
  return a_below_b == (op == ReduceOp::kMin) ? a : b;
}

template <class F>
F finished(F value, double postscale) {
  if (postscale != 1.0) value *= static_cast<F>(postscale);
  return std::isnan(value) ? std::numeric_limits<F>::quiet_NaN() : value;
}

template <class T>
T int_op(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kSum)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  if (op == ReduceOp::kProduct)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  return (a < b) == (op == ReduceOp::kMin) ? a : b;
}

template <class T>
T scaled(T value, double factor) {
  if (factor == 1.0) return value;
  // Reciprocals of whole numbers are divisions.
  if (const double n = std::round(1.0 / factor);
      factor > 1e-9 && factor < 1.0 && 1.0 / n == factor) {
    return static_cast<T>(value / static_cast<int64_t>(n));
  }
  const double product = static_cast<double>(value) * factor;
  if (std::isnan(product)) return 0;
  const long double whole = std::trunc(static_cast<long double>(product));
  if (whole > static_cast<long double>(std::numeric_limits<T>::max()))
    return std::numeric_limits<T>::max();
  if (whole < static_cast<long double>(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  return static_cast<T>(whole);
}

// Calls body(i) for every element of the result.
template <class Body>
Bytes for_each_element(DType dtype, std::span<const Bytes> sources, Body body) {
  Bytes result(sources[0].size());
  const size_t count = result.size() / dtype_size(dtype);
  for (size_t i = 0; i < count; ++i) body(result, i);
  return result;
}

// Calls with(T{}) where T is what elements of `dtype` compute in; uint8_t for bool.
template <class With>
Bytes with_type(DType dtype, With with) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool: return with(uint8_t{});
    case DType::kInt8: return with(int8_t{});
    case DType::kUint16: return with(uint16_t{});
    case DType::kInt16: return with(int16_t{});
    case DType::kInt32: return with(int32_t{});
    case DType::kInt64: return with(int64_t{});
    case DType::kUint32: return with(uint32_t{});
    case DType::kUint64: return with(uint64_t{});
    case DType::kFloat64: return with(double{});
    case DType::kFloat16:
    case DType::kBfloat16:
    case DType::kFloat32: return with(float{});
    default: break;  // not a single number
  }
  std::abort();
}

template <class F>
F get_float(DType dtype, const Bytes& bytes, size_t i) {
  if (is_half(dtype)) return static_cast<F>(half_value(dtype, element<uint16_t>(bytes, i)));
  return element<F>(bytes, i);
}

template <class F>
void put_float(DType dtype, Bytes& bytes, size_t i, F value) {
  if (is_half(dtype)) {
    put(bytes, i, half_bits(dtype, static_cast<float>(value)));
  } else {
    put(bytes, i, value);
  }
}

uint8_t expected_bool(ReduceOp op, std::span<const Bytes> sources, size_t i) {
  bool all = true, any = false;
  for (const Bytes& source : sources) {
    all = all && source[i] != 0;
    any = any || source[i] != 0;
  }
  return op == ReduceOp::kMin || op == ReduceOp::kProduct ? all : any;
}

// Bit patterns of numbers that break careless code, by size of the pattern.
constexpr uint16_t kFloat16Specials[] = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00,
                                         0xfe01, 0x7c01, 0xfd55, 0x0001, 0x8001, 0x03ff, 0x83ff,
                                         0x0400, 0x8400, 0x7bff, 0xfbff, 0x6400, 0x0002};
constexpr uint16_t kBfloat16Specials[] = {0x0000, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0,
                                          0xffc1, 0x7f81, 0xffff, 0x0001, 0x8001, 0x007f, 0x807f,
                                          0x0080, 0x8080, 0x7f7f, 0xff7f, 0x4b00, 0x7fff};
constexpr uint32_t kFloat32Specials[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
    0xffc00001, 0x7f800001, 0xffffffff, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
    0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x33800000, 0x4b800001};
constexpr uint64_t kFloat64Specials[] = {
    0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000001,
    0x7ff0000000000001, 0xffffffffffffffff, 0x0000000000000001, 0x8000000000000001,
    0x000fffffffffffff, 0x800fffffffffffff, 0x0010000000000000, 0x8010000000000000,
    0x7fefffffffffffff, 0xffefffffffffffff};

template <class T, size_t N>
void put_special(const T (&specials)[N], Bytes& bytes, size_t i, Random& random) {
  put(bytes, i, specials[random.below(N)]);
}

void put_special(DType dtype, Bytes& bytes, size_t i, Random& random) {
  switch (dtype) {
    case DType::kFloat16: return put_special(kFloat16Specials, bytes, i, random);
    case DType::kBfloat16: return put_special(kBfloat16Specials, bytes, i, random);
    case DType::kFloat32: return put_special(kFloat32Specials, bytes, i, random);
    case DType::kFloat64: return put_special(kFloat64Specials, bytes, i, random);
    default: {  // integers: all zeros, all ones, the lowest and the highest signed number
      const size_t size = dtype_size(dtype);
      const unsigned char fill = random.below(2) ? 0xff : 0x00;
      std::memset(bytes.data() + i * size, fill, size);
      if (random.below(2)) bytes[i * size + size - 1] ^= 0x80;
    }
  }
}

void put_small(DType dtype, Bytes& bytes, size_t i, Random& random) {
  const int value = static_cast<int>(random.below(9)) - 4;
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      put_float<T>(dtype, bytes, i, static_cast<T>(value) * static_cast<T>(0.375));
    } else {
      put(bytes, i, static_cast<T>(value));
    }
    return Bytes();
  });
}

}  // namespace

const char* label(Isa isa) {
  return isa == Isa::kScalar ? "scalar" : isa == Isa::kAvx2 ? "avx2" : "avx512";
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

uint64_t Random::bits() {  // a permutation of a counter: splitmix64
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Bytes random_elements(DType dtype, size_t count, Random& random) {
  Bytes bytes(count * dtype_size(dtype));
  for (size_t i = 0; i < count; ++i) {
    const size_t kind = random.below(8);
    if (kind == 0) {
      put_special(dtype, bytes, i, random);
    } else if (kind < 5) {
      put_small(dtype, bytes, i, random);
    } else {
      const uint64_t bits = random.bits();
      std::memcpy(bytes.data() + i * dtype_size(dtype), &bits, dtype_size(dtype));
    }
  }
  return bytes;
}

float half_value(DType dtype, uint16_t bits) {
  const HalfShape shape = shape_of(dtype);
  const int exponent = (bits & 0x7fff) >> shape.mantissa;
  const int mantissa = bits & ((1 << shape.mantissa) - 1);
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == shape.infinity - shape.lowest + 1) {
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), shape.lowest - shape.mantissa);
  return sign * std::ldexp(static_cast<float>(mantissa | 1 << shape.mantissa),
                           exponent - 1 + shape.lowest - shape.mantissa);
}

uint16_t half_bits(DType dtype, float value) {
  const HalfShape shape = shape_of(dtype);
  const int infinity = (shape.infinity - shape.lowest + 1) << shape.mantissa;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | 1 << (shape.mantissa - 1));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  if (magnitude == 0) return static_cast<uint16_t>(sign);
  const int exponent = std::max(std::ilogb(magnitude), shape.lowest);
  // In units of the last place; nearbyint rounds halves to even. A carry moves into the exponent by
  // itself, and the largest carry is infinity.
  const int units =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, shape.mantissa - exponent)));
  const int bits = ((exponent - shape.lowest) << shape.mantissa) + units;
  return static_cast<uint16_t>(sign | std::min(bits, infinity));
}

double element_value(DType dtype, const Bytes& bytes, size_t i) {
  double value = 0;
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<double>(get_float<T>(dtype, bytes, i));
    } else {
      value = static_cast<double>(element<T>(bytes, i));
    }
    return Bytes();
  });
  return value;
}

void put_value(DType dtype, Bytes& bytes, size_t i, double value) {
  if (dtype == DType::kFloat64) return put(bytes, i, value);
  put_float(dtype, bytes, i, static_cast<float>(value));
}

Bytes expected_reduce(DType dtype, ReduceOp op, std::span<const Bytes> sources, double postscale) {
  if (dtype == DType::kBool) {
    return for_each_element(dtype, sources,
                            [&](Bytes& to, size_t i) { to[i] = expected_bool(op, sources, i); });
  }
  if (sources.size() == 1 && postscale == 1.0) return sources[0];
  return with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    return for_each_element(dtype, sources, [&](Bytes& to, size_t i) {
      if constexpr (std::is_floating_point_v<T>) {
        T total = get_float<T>(dtype, sources[0], i);
        for (const Bytes& source : sources.subspan(1))
          total = float_op(op, total, get_float<T>(dtype, source, i));
        put_float(dtype, to, i, finished(total, postscale));
      } else {
        T total = element<T>(sources[0], i);
        for (const Bytes& source : sources.subspan(1))
          total = int_op(op, total, element<T>(source, i));
        put(to, i, scaled(total, postscale));
      }
    });
  });
}

Bytes expected_weighted_sum(DType dtype, std::span<const Bytes> sources,
                            std::span<const double> weights, double postscale) {
  return with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    return for_each_element(dtype, sources, [&](Bytes& to, size_t i) {
      if constexpr (std::is_floating_point_v<T>) {
        T total = get_float<T>(dtype, sources[0], i) * static_cast<T>(weights[0]);
        for (size_t k = 1; k < sources.size(); ++k) {
          const T term = get_float<T>(dtype, sources[k], i) * static_cast<T>(weights[k]);
          total = total + term;
        }
        put_float(dtype, to, i, finished(total, postscale));
      }
    });
  });
}

}  // namespace hvd::kernels::test
