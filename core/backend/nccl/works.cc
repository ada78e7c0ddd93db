// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/works.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/kernels.h"

namespace hvd::backend::nccl {

namespace {

const std::byte* bytes_at(const void* memory, size_t at) {
  return static_cast<const std::byte*>(memory) + at;
}
std::byte* bytes_at(void* memory, size_t at) { return static_cast<std::byte*>(memory) + at; }

// Calls succeed at once, or are under way where the library connects first.
bool good(int error) { return error == kSuccess || error == kInProgress; }

struct HalfFormat {
  int exponent_bits;
  int mantissa_bits;
};
constexpr HalfFormat kFloat16{5, 10};
constexpr HalfFormat kBfloat16{8, 7};

int bias(HalfFormat format) { return (1 << (format.exponent_bits - 1)) - 1; }

// Neither too large nor so small that it would lose digits.
bool normal_in(HalfFormat format, double value) {
  const double size = std::fabs(value);
  return size >= std::ldexp(1.0, 1 - bias(format)) && size < std::ldexp(1.0, bias(format));
}

// Rounded to nearest even.
uint16_t half_of(HalfFormat format, double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  auto mantissa =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, format.mantissa_bits + 1)));
  // A mantissa that has been rounded up to the next power of two carries into the exponent.
  const auto biased = static_cast<uint32_t>(exponent - 1 + bias(format));
  const uint32_t bits =
      (biased << format.mantissa_bits) + (mantissa - (1u << format.mantissa_bits));
  return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000u : 0u));
}

bool takes_factor(DType dtype, double factor) {
  switch (dtype) {
    case DType::kFloat16: return normal_in(kFloat16, factor);
    case DType::kBfloat16: return normal_in(kBfloat16, factor);
    case DType::kFloat32: return std::isnormal(static_cast<float>(factor));
    case DType::kFloat64: return std::isnormal(factor);
    default: return false;  // dividing integers exactly is not NCCL's
  }
}

int allgather(const Target& target, const Item& item) {
  const std::span<const size_t> parts = item.parts;
  const Calls& calls = target.calls;
  if (std::all_of(parts.begin(), parts.end(), [&](size_t bytes) { return bytes == parts[0]; })) {
    if (parts[0] == 0) return kSuccess;
    return calls.allgather(item.in, item.out, parts[0], kBytes, target.comm, target.stream);
  }
  size_t at = 0;
  for (int member = 0; member < target.members; ++member) {
    const size_t bytes = parts[static_cast<size_t>(member)];
    std::byte* out = bytes_at(item.out, at);
    const void* in = member == target.me ? item.in : out;
    at += bytes;
    if (bytes == 0) continue;
    if (const int error =
            calls.broadcast(in, out, bytes, kBytes, member, target.comm, target.stream);
        !good(error))
      return error;
  }
  return kSuccess;
}

int alltoall(const Target& target, const Work& work) {
  const Item& item = work.items[0];
  size_t from = 0;
  size_t to = 0;
  for (int member = 0; member < target.members; ++member) {
    const auto m = static_cast<size_t>(member);
    if (work.send_bytes[m] > 0) {
      const int error = target.calls.send(bytes_at(item.in, from), work.send_bytes[m], kBytes,
                                          member, target.comm, target.stream);
      if (!good(error)) return error;
    }
    if (work.receive_bytes[m] > 0) {
      const int error = target.calls.receive(bytes_at(item.out, to), work.receive_bytes[m], kBytes,
                                             member, target.comm, target.stream);
      if (!good(error)) return error;
    }
    from += work.send_bytes[m];
    to += work.receive_bytes[m];
  }
  return kSuccess;
}

int reducescatter(const Target& target, const Item& item, DType dtype, int op) {
  const std::span<const size_t> parts = item.parts;
  const int type = *type_number(dtype);
  if (std::all_of(parts.begin(), parts.end(), [&](size_t count) { return count == parts[0]; })) {
    if (parts[0] == 0) return kSuccess;
    return target.calls.reducescatter(item.in, item.out, parts[0], type, op, target.comm,
                                      target.stream);
  }
  size_t at = 0;
  for (int member = 0; member < target.members; ++member) {
    const size_t count = parts[static_cast<size_t>(member)];
    const void* in = bytes_at(item.in, at * dtype_size(dtype));
    at += count;
    if (count == 0) continue;
    void* out = member == target.me ? item.out : nullptr;
    const int error =
        target.calls.reduce(in, out, count, type, op, member, target.comm, target.stream);
    if (!good(error)) return error;
  }
  return kSuccess;
}

int queue_item(const Target& target, const Work& work, const Item& item, int op) {
  switch (work.kind) {
    case Kind::kAllreduce:
      if (item.count == 0) return kSuccess;
      return target.calls.allreduce(item.in, item.out, item.count, *type_number(work.dtype), op,
                                    target.comm, target.stream);
    case Kind::kAllgather: return allgather(target, item);
    case Kind::kBroadcast: {
      if (item.count == 0) return kSuccess;
      const void* in = work.root_member == target.me ? item.in : item.out;
      return target.calls.broadcast(in, item.out, item.count, kBytes, work.root_member, target.comm,
                                    target.stream);
    }
    case Kind::kAlltoall: return alltoall(target, work);
    case Kind::kReducescatter: return reducescatter(target, item, work.dtype, op);
  }
  return kSuccess;
}

}  // namespace

std::optional<int> type_number(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return 0;
    case DType::kUint8: return 1;
    case DType::kInt32: return 2;
    case DType::kInt64: return 4;
    case DType::kFloat16: return 6;
    case DType::kFloat32: return 7;
    case DType::kFloat64: return 8;
    case DType::kBfloat16: return 9;
    default: return std::nullopt;
  }
}

Scaling scaling_of(const Work& work) {
  Scaling scaling;
  if (work.kind != Kind::kAllreduce && work.kind != Kind::kReducescatter) return scaling;
  if (work.prescale == 1.0 && work.postscale == 1.0) return scaling;
  const double factor = work.prescale * work.postscale;
  if (work.op == ReduceOp::kSum && takes_factor(work.dtype, factor)) {
    scaling.in_call = factor;
  } else {
    scaling.before = work.prescale;
    scaling.after = work.postscale;
  }
  return scaling;
}

bool runs(const Work& work, bool kernels) {
  if (work.kind != Kind::kAllreduce && work.kind != Kind::kReducescatter) return true;  // bytes
  if (!type_number(work.dtype)) return false;
  switch (work.op) {
    case ReduceOp::kSum:
    case ReduceOp::kMin:
    case ReduceOp::kMax:
    case ReduceOp::kProduct: break;
    case ReduceOp::kAdasum: return kernels;
    default: return false;
  }
  const Scaling scaling = scaling_of(work);
  if (scaling.before == 1.0 && scaling.after == 1.0) return true;
  // A reducescatter has no memory for scaled inputs.
  return kernels && device::Kernels::scales(work.dtype) &&
         (work.kind == Kind::kAllreduce || scaling.before == 1.0);
}

Scalar scalar_of(DType dtype, double factor) {
  Scalar scalar;
  const auto write = [&scalar](auto value) { std::memcpy(scalar.bytes, &value, sizeof value); };
  switch (dtype) {
    case DType::kFloat16: write(half_of(kFloat16, factor)); break;
    case DType::kBfloat16: write(half_of(kBfloat16, factor)); break;
    case DType::kFloat32: write(static_cast<float>(factor)); break;
    default: write(factor);
  }
  return scalar;
}

int queue(const Target& target, const Work& work, int op) {
  if (const int error = target.calls.group_start(); !good(error)) return error;
  int first = kSuccess;
  for (const Item& item : work.items) {
    first = queue_item(target, work, item, op);
    if (!good(first)) break;
  }
  const int ended = target.calls.group_end();
  return good(first) ? ended : first;
}

}  // namespace hvd::backend::nccl
