// SPDX-License-Identifier: Apache-2.0
#include "unit/collectives/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <random>

#include "kernels/reduce.h"

namespace hvd::test {

namespace {

template <class T>
void store(Bytes& bytes, size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

void store_random(Bytes& bytes, size_t i, DType dtype, uint64_t bits) {
  const double value = static_cast<double>(bits >> 11) * 0x1p-53 * 4 - 2;
  switch (dtype) {
    case DType::kFloat32: return store(bytes, i, static_cast<float>(value));
    case DType::kFloat64: return store(bytes, i, value);
    case DType::kComplex64:
      return store(bytes, i, std::array{static_cast<float>(value), static_cast<float>(1 - value)});
    case DType::kComplex128: return store(bytes, i, std::array{value, 1 - value});
    case DType::kBfloat16:
      return store(bytes, i,
                   static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    case DType::kFloat16:  // random sign and mantissa, exponents from 2^-5 to 2^2
      return store(bytes, i,
                   static_cast<uint16_t>((bits & 0x83ff) | (10 + (bits >> 20) % 8) << 10));
    case DType::kBool: return store(bytes, i, static_cast<uint8_t>(bits >> 40 & 1));
    default: std::memcpy(bytes.data() + i * dtype_size(dtype), &bits, dtype_size(dtype));
  }
}

}  // namespace

Bytes random_values(DType dtype, size_t count, uint64_t key) {
  Bytes bytes(count * dtype_size(dtype));
  std::mt19937_64 random(key * 0x9e3779b97f4a7c15u + 1);
  for (size_t i = 0; i < count; ++i) store_random(bytes, i, dtype, random());
  return bytes;
}

Bytes random_bytes(size_t count, uint64_t key) { return random_values(DType::kUint8, count, key); }

Bytes reduced(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs, size_t count,
              double prescale, double postscale) {
  const kernels::KernelTable& kernel = kernels::table(kernels::Isa::kScalar);
  std::vector<Bytes> scaled = inputs;
  std::vector<const void*> sources;
  for (Bytes& input : scaled) {
    if (input.empty() && count != 0) {
      input.resize(count * dtype_size(dtype));
      kernels::fill_identity(dtype, op, input.data(), count);
    } else if (prescale != 1.0) {
      kernel.scale(dtype, input.data(), input.data(), count, prescale);
    }
    sources.push_back(input.data());
  }
  Bytes result(count * dtype_size(dtype));
  kernels::ReduceArgs args;
  args.dtype = dtype;
  args.op = op;
  args.dst = result.data();
  args.srcs = sources.data();
  args.nsrc = sources.size();
  args.count = count;
  args.postscale = postscale;
  kernel.reduce(args);
  return result;
}

Bytes reduced_by_hosts(DType dtype, ReduceOp op, const std::vector<Bytes>& inputs,
                       const std::vector<int>& host_of, size_t count, double prescale,
                       double postscale) {
  const int hosts = *std::max_element(host_of.begin(), host_of.end()) + 1;
  std::vector<Bytes> sums;
  for (int h = 0; h < hosts; ++h) {
    std::vector<Bytes> near;
    for (size_t m = 0; m < inputs.size(); ++m) {
      if (host_of[m] == h) near.push_back(inputs[m]);
    }
    sums.push_back(reduced(dtype, op, near, count, prescale, 1.0));
  }
  return reduced(dtype, op, sums, count, 1.0, postscale);
}

}  // namespace hvd::test
