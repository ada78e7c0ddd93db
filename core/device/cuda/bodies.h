// SPDX-License-Identifier: Apache-2.0
// What one thread of our kernels does. Compiled by nvcc for devices, and by the host's compiler for
// the tests' stand-in, which runs the same code. Each kernel goes once through its segments, 16
// bytes at a time where their alignment allows it.
#pragma once

#include <cstdint>

#include "base/integer_scale.h"
#include "device/cuda/table.h"

namespace hvd::device::cuda {

struct alignas(16) Quad {
  uint32_t words[4];
};

// The place of a thread.
struct Thread {
  unsigned block;
  unsigned index;  // in the block
};

template <class To, class From>
HVD_ANYWHERE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

// float16 and bfloat16, as bits.
struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

HVD_ANYWHERE float widened(Bfloat16 half) {
  return bits_as<float>(static_cast<uint32_t>(half.bits) << 16);
}

HVD_ANYWHERE float widened(Float16 half) {
  const uint32_t sign = (half.bits & 0x8000u) << 16;
  const uint32_t rest = half.bits & 0x7fffu;
  if (rest >= 0x7c00u) return bits_as<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // A power of two brings the exponent to its place, also of what is denormal.
  const float size = bits_as<float>(rest << 13) * 0x1p112f;
  return bits_as<float>(sign | bits_as<uint32_t>(size));
}

// To nearest even; every NaN becomes the quiet one.
HVD_ANYWHERE void narrow(float value, Bfloat16* half) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  half->bits = nan ? 0x7fc0 : static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

HVD_ANYWHERE void narrow(float value, Float16* half) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) {
    half->bits = 0x7e00;
  } else if (size >= 0x477ff000u) {  // rounds to what is too large
    half->bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (size >= 0x38800000u) {  // normal
    half->bits =
        static_cast<uint16_t>(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
  } else {  // the addition moves the digits to their place and rounds
    half->bits = static_cast<uint16_t>(
        sign | (bits_as<uint32_t>(bits_as<float>(size) + 0.5f) - 0x3f000000u));
  }
}

// An element, divided or multiplied. The rules are those of kernels/reduce.h.
template <class T>
HVD_ANYWHERE T scaled(T value, const Table& table) {
  return table.divisor != 0 ? divided_int(value, table.divisor) : scaled_int(value, table.factor);
}
template <>
HVD_ANYWHERE double scaled(double value, const Table& table) {
  return value * table.factor;
}
template <>
HVD_ANYWHERE float scaled(float value, const Table& table) {
  return value * static_cast<float>(table.factor);
}
template <>
HVD_ANYWHERE Float16 scaled(Float16 value, const Table& table) {
  Float16 half;
  narrow(widened(value) * static_cast<float>(table.factor), &half);
  return half;
}
template <>
HVD_ANYWHERE Bfloat16 scaled(Bfloat16 value, const Table& table) {
  Bfloat16 half;
  narrow(widened(value) * static_cast<float>(table.factor), &half);
  return half;
}

// The kernels' two kinds of steps.
template <class T>
struct Copy {
  using Element = T;
  HVD_ANYWHERE static Quad of(Quad quad, const Table&) { return quad; }
  HVD_ANYWHERE static T of(T value, const Table&) { return value; }
};
template <class T>
struct Scale {
  using Element = T;
  HVD_ANYWHERE static Quad of(Quad quad, const Table& table) {
    constexpr unsigned kElements = sizeof(Quad) / sizeof(T);
    T values[kElements];
    __builtin_memcpy(values, &quad, sizeof quad);
    for (unsigned i = 0; i < kElements; ++i) values[i] = scaled(values[i], table);
    __builtin_memcpy(&quad, values, sizeof quad);
    return quad;
  }
  HVD_ANYWHERE static T of(T value, const Table& table) { return scaled(value, table); }
};

// A block's share of its segment, in units of U. Four loads are under way before the first store.
template <class Step, class U>
HVD_ANYWHERE void run_units(const Table& table, const U* from, U* to, unsigned units,
                            unsigned thread) {
  unsigned at = thread;
  for (; at + 3 * kThreads < units; at += 4 * kThreads) {
    const U a = from[at];
    const U b = from[at + kThreads];
    const U c = from[at + 2 * kThreads];
    const U d = from[at + 3 * kThreads];
    to[at] = Step::of(a, table);
    to[at + kThreads] = Step::of(b, table);
    to[at + 2 * kThreads] = Step::of(c, table);
    to[at + 3 * kThreads] = Step::of(d, table);
  }
  for (; at < units; at += kThreads) to[at] = Step::of(from[at], table);
}

template <class AnyTable>
HVD_ANYWHERE unsigned segment_of(const AnyTable& table, unsigned block) {
  unsigned low = 0;
  unsigned high = table.segments;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (table.first_chunk[middle] <= block ? low : high) = middle;
  }
  return low;
}

HVD_ANYWHERE bool aligned(const void* a, const void* b, uintptr_t to) {
  return ((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) & (to - 1)) == 0;
}

template <class Step>
HVD_ANYWHERE void run(const Table& table, Thread thread) {
  using T = typename Step::Element;
  const unsigned segment = segment_of(table, thread.block);
  const uint64_t start = (thread.block - table.first_chunk[segment]) * kChunkBytes;
  const uint64_t left = table.bytes[segment] - start;
  const auto bytes = static_cast<unsigned>(left < kChunkBytes ? left : kChunkBytes);
  const unsigned char* from = table.from[segment] + start;
  unsigned char* to = table.to[segment] + start;
  unsigned done = 0;
  if (aligned(from, to, sizeof(Quad))) {
    done = bytes / sizeof(Quad) * sizeof(Quad);
    run_units<Step>(table, reinterpret_cast<const Quad*>(from), reinterpret_cast<Quad*>(to),
                    done / sizeof(Quad), thread.index);
  }
  run_units<Step>(table, reinterpret_cast<const T*>(from + done), reinterpret_cast<T*>(to + done),
                  (bytes - done) / sizeof(T), thread.index);
}

// Words where all are words.
HVD_ANYWHERE void copy(const Table& table, Thread thread) {
  const unsigned segment = segment_of(table, thread.block);
  if (aligned(table.from[segment], table.to[segment], sizeof(uint32_t)) &&
      table.bytes[segment] % sizeof(uint32_t) == 0) {
    run<Copy<uint32_t>>(table, thread);
  } else {
    run<Copy<unsigned char>>(table, thread);
  }
}

}  // namespace hvd::device::cuda
