// SPDX-License-Identifier: Apache-2.0
// What one thread of the kernels for Adasum does: inner products of what the members have sent, of
// each tensor for itself, and the sum with the weights that follow from them. No thread needs
// another one of its kernel, and the order of each sum is fixed.
#pragma once

#include "base/adasum.h"
#include "device/cuda/bodies.h"

namespace hvd::device::cuda {

HVD_ANYWHERE float as_number(Float16 value) { return widened(value); }
HVD_ANYWHERE float as_number(Bfloat16 value) { return widened(value); }
HVD_ANYWHERE float as_number(float value) { return value; }
HVD_ANYWHERE double as_number(double value) { return value; }
HVD_ANYWHERE void store_number(float value, Float16* to) { narrow(value, to); }
HVD_ANYWHERE void store_number(float value, Bfloat16* to) { narrow(value, to); }
HVD_ANYWHERE void store_number(float value, float* to) { *to = value; }
HVD_ANYWHERE void store_number(double value, double* to) { *to = value; }

// Two of the members, of which the second is not before the first; counted row by row.
struct Pair {
  unsigned first;
  unsigned second;
};
HVD_ANYWHERE Pair pair_of(unsigned index, unsigned members) {
  unsigned first = 0;
  for (unsigned row = members; index >= row; --row) {
    index -= row;
    ++first;
  }
  return {first, first + index};
}
HVD_ANYWHERE unsigned pairs_of(unsigned members) { return members * (members + 1) / 2; }

// A block's chunk of its segment, in elements from where the segment begins.
struct Chunk {
  unsigned segment;
  unsigned first;
  unsigned end;
};
template <class T>
HVD_ANYWHERE Chunk chunk_of(const AdasumTable& table, unsigned block) {
  constexpr auto kElements = static_cast<unsigned>(kChunkBytes / sizeof(T));
  const unsigned segment = segment_of(table, block);
  const unsigned first = (block - table.first_chunk[segment]) * kElements;
  const unsigned count = table.bytes[segment] / static_cast<unsigned>(sizeof(T));
  return {segment, first, count - first < kElements ? count : first + kElements};
}

template <class T>
HVD_ANYWHERE const T* sent(const AdasumTable& table, unsigned member, unsigned segment) {
  return reinterpret_cast<const T*>(table.sent + member * table.stride + table.at[segment]);
}

// Each thread's share of each inner product: pair by pair, a block for each chunk.
template <class T>
HVD_ANYWHERE void multiply(const AdasumTable& table, Thread thread) {
  const unsigned chunks = table.first_chunk[table.segments];
  const Pair pair = pair_of(thread.block / chunks, table.members);
  const Chunk chunk = chunk_of<T>(table, thread.block % chunks);
  const T* a = sent<T>(table, pair.first, chunk.segment);
  const T* b = sent<T>(table, pair.second, chunk.segment);
  double sum = 0;
  for (unsigned at = chunk.first + thread.index; at < chunk.end; at += kThreads) {
    sum += static_cast<double>(as_number(a[at])) * static_cast<double>(as_number(b[at]));
  }
  table.sums[uint64_t{thread.block} * kThreads + thread.index] = sum;
}

// Adds the sums of a block's threads: the block's first sum becomes the sum of all.
HVD_ANYWHERE void add_threads(const AdasumTable& table, Thread thread) {
  const unsigned block = thread.block * kThreads + thread.index;
  if (block >= table.first_chunk[table.segments] * pairs_of(table.members)) return;
  double* sums = table.sums + uint64_t{block} * kThreads;
  double sum = 0;
  for (unsigned i = 0; i < kThreads; ++i) sum += sums[i];
  sums[0] = sum;
}

// Adds the sums of the chunks of a segment to the products of its tensor. No tensor has two
// segments in one table.
HVD_ANYWHERE void add_chunks(const AdasumTable& table, Thread thread) {
  const unsigned index = thread.block * kThreads + thread.index;
  const unsigned pairs = pairs_of(table.members);
  if (index >= table.segments * pairs) return;
  const unsigned segment = index / pairs;
  const unsigned chunks = table.first_chunk[table.segments];
  double sum = 0;
  for (unsigned chunk = table.first_chunk[segment]; chunk < table.first_chunk[segment + 1];
       ++chunk) {
    sum += table.sums[(uint64_t{index % pairs} * chunks + chunk) * kThreads];
  }
  const Pair pair = pair_of(index % pairs, table.members);
  double* products =
      table.products + uint64_t{table.tensor[segment]} * table.members * table.members;
  products[pair.first * table.members + pair.second] += sum;
  if (pair.first != pair.second) products[pair.second * table.members + pair.first] += sum;
}

HVD_ANYWHERE void clear_products(const AdasumTable& table, Thread thread) {
  const uint64_t index = uint64_t{thread.block} * kThreads + thread.index;
  if (index < uint64_t{table.tensors} * table.members * table.members) table.products[index] = 0;
}

// Weighs the members: a thread works on each tensor, with rows where the sums have been.
HVD_ANYWHERE void weigh(const AdasumTable& table, Thread thread) {
  const unsigned tensor = thread.block * kThreads + thread.index;
  if (tensor >= table.tensors) return;
  const uint64_t n = table.members;
  double* rows = table.sums + tensor * n * n;
  for (uint64_t i = 0; i < n * n; ++i) rows[i] = i % (n + 1) == 0 ? 1.0 : 0.0;
  combine_adasum(table.products + tensor * n * n, n, rows, n);
  for (uint64_t m = 0; m < n; ++m) table.weights[tensor * n + m] = rows[m];
}

template <class T>
HVD_ANYWHERE void combine(const AdasumTable& table, Thread thread) {
  using Number = decltype(as_number(T{}));
  const Chunk chunk = chunk_of<T>(table, thread.block);
  const double* weights = table.weights + uint64_t{table.tensor[chunk.segment]} * table.members;
  T* to = reinterpret_cast<T*>(table.to + table.at[chunk.segment]);
  for (unsigned at = chunk.first + thread.index; at < chunk.end; at += kThreads) {
    Number sum = 0;
    for (unsigned m = 0; m < table.members; ++m) {
      sum += static_cast<Number>(weights[m]) * as_number(sent<T>(table, m, chunk.segment)[at]);
    }
    store_number(sum, to + at);
  }
}

}  // namespace hvd::device::cuda
