// SPDX-License-Identifier: Apache-2.0
// The arguments of our kernels, passed by value, so that a launch needs no memory of the device for
// them and a captured graph keeps a copy of its own. For the host's compiler and for nvcc.
#pragma once

#include <cstdint>

namespace hvd::device::cuda {

inline constexpr unsigned kParts = 128;            // in a launch, which may have 4 KiB of arguments
inline constexpr unsigned kThreads = 256;          // in a block
inline constexpr uint64_t kChunkBytes = 32 << 10;  // moved by a block

// Pieces of memory, each with a source and a target of its own. Block b works on chunk b - first_chunk[part] of the part with
// first_chunk[part] <= b < first_chunk[part + 1].
struct Table {
  const unsigned char* from[kParts];
  unsigned char* to[kParts];
  uint64_t bytes[kParts];
  uint32_t first_chunk[kParts + 1];
  uint32_t parts;
  int64_t divisor;  // for integers; 0: multiply with the factor
  double factor;
};
static_assert(sizeof(Table) <= 4096, "more than a kernel's arguments may be");

// For Adasum: this member's share of the inputs of all members, in parts that each belong to one
// tensor.
struct AdasumTable {
  const unsigned char* sent;  // member m's share is at sent + m * stride
  uint64_t stride;
  unsigned char* to;  // where the share's result goes
  double* sums;       // kThreads for each chunk and pair of members; or members x members for each tensor
  double* products;   // members x members for each tensor
  double* weights;    // a weight of each member for each tensor
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
