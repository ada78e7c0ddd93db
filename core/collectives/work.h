// SPDX-License-Identifier: Apache-2.0
// A collective as whoever moves its bytes is told: the word of every data plane, ours and those of
// libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace hvd::collectives {

enum class Kind : uint8_t {
#define HVD_KIND(enumerator, name) enumerator,
#include "collectives/kind.def"
};

// A tensor. In a reduction, in == nullptr: this rank contributes nothing; out == nullptr: the
// result is not wanted here.
struct Item {
  const void* in = nullptr;
  // in place: `in`; allgather: `in` is the own part of it; reducescatter: `in` or its own part
  void* out = nullptr;
  size_t count = 0;  // elements (allreduce), bytes (broadcast)
  // per member, consecutive: bytes of `out` (allgather), elements of `in` (reducescatter)
  std::span<const size_t> parts{};
};

// A collective over one or more tensors of one dtype; a single one for broadcast and alltoall.
struct Work {
  Kind kind = Kind::kAllreduce;
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;  // never kAverage: the engine turns that into kSum with a postscale
  double prescale = 1.0;
  double postscale = 1.0;
  int root_member = 0;
  std::span<const Item> items{};
  std::span<const size_t> send_bytes{};     // alltoall, per member, consecutive in `in`
  std::span<const size_t> receive_bytes{};  // alltoall, per member, consecutive in `out`
};

}  // namespace hvd::collectives
