// SPDX-License-Identifier: Apache-2.0
// What our kernels are given, by value: so a launch needs no memory of the device for it, and a captured graph keeps its own.
// For the host's compiler and for nvcc.
#pragma once

#include <cstdint>

namespace hvd::device::cuda {

inline constexpr unsigned kParts = 128;            // of one launch; launches may have 4 KiB of arguments
inline constexpr unsigned kThreads = 256;          // of one block
inline constexpr uint64_t kChunkBytes = 32 << 10;  // what one block moves

// Pieces of memory, each with a source and a target of its own. Block b works on chunk b - first_chunk[part] of the part with
// first_chunk[part] <= b < first_chunk[part + 1].
struct Table {
  const unsigned char* from[kParts];
  unsigned char* to[kParts];
  uint64_t bytes[kParts];
  uint32_t first_chunk[kParts + 1];
  uint32_t parts;
  int64_t divisor;  // of integers; 0: multiply with the factor
  double factor;
};
static_assert(sizeof(Table) <= 4096, "more than a kernel's arguments may be");

// For Adasum: this member's share of what every member has sent, in parts that each belong to one tensor.
struct AdasumTable {
  const unsigned char* sent;  // member m's share is at sent + m * stride
  uint64_t stride;
  unsigned char* to;  // where the share's result goes
  double* sums;       // kThreads for each chunk and pair of members; or members x members for each tensor
  double* products;   // members x members for each tensor
  double* weights;    // one of each member for each tensor
  uint32_t members;
  uint32_t tensors;
  uint32_t parts;
  uint32_t tensor[kParts];
  uint32_t at[kParts];  // in the share
  uint32_t bytes[kParts];
  uint32_t first_chunk[kParts + 1];
};
static_assert(sizeof(AdasumTable) <= 4096, "more than a kernel's arguments may be");

}  // namespace hvd::device::cuda
