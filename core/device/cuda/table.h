// SPDX-License-Identifier: Apache-2.0
// The arguments of our kernels, passed by value, so that a launch needs no memory of the device for
// them and a captured graph keeps a copy of its own. For the host's compiler and for nvcc.
#pragma once

#include <cstdint>

namespace hvd::device::cuda {

inline constexpr unsigned kSegments = 128;         // in a launch, which may have 4 KiB of arguments
inline constexpr unsigned kThreads = 256;          // in a block
inline constexpr uint64_t kChunkBytes = 32 << 10;  // moved by a block

// Segments of memory, each with a source and a target of its own. Block b works on chunk b -
// first_chunk[segment] of the segment with first_chunk[segment] <= b < first_chunk[segment + 1].
struct Table {
  const unsigned char* from[kSegments];
  unsigned char* to[kSegments];
  uint64_t bytes[kSegments];
  uint32_t first_chunk[kSegments + 1];
  uint32_t segments;
  int64_t divisor;  // for integers; 0: multiply with the factor
  double factor;
};
static_assert(sizeof(Table) <= 4096, "more than a kernel's arguments may be");

// For Adasum: this member's share of the inputs of all members, in segments that each belong to one
// tensor.
struct AdasumTable {
  const unsigned char* sent;  // member m's share is at sent + m * stride
  uint64_t stride;
  unsigned char* to;  // where the share's result goes
  // kThreads for each chunk and pair of members; or members x members for each tensor
  double* sums;
  double* products;  // members x members for each tensor
  double* weights;   // a weight of each member for each tensor
  uint32_t members;
  uint32_t tensors;
  uint32_t segments;
  uint32_t tensor[kSegments];
  uint32_t at[kSegments];  // in the share
  uint32_t bytes[kSegments];
  uint32_t first_chunk[kSegments + 1];
};
static_assert(sizeof(AdasumTable) <= 4096, "more than a kernel's arguments may be");

}  // namespace hvd::device::cuda
