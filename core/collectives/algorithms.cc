// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms.h"

#include <cstddef>

namespace hvd::collectives {

namespace {

struct Algorithm {
  Kind kind;
  Program (*program)(LaneState& state, const Work& work);
};

// In the order of Kind.
constexpr Algorithm kAlgorithms[] = {
    {Kind::kAllreduce, allreduce}, {Kind::kAllgather, allgather},         {Kind::kBroadcast, broadcast},
    {Kind::kAlltoall, alltoall},   {Kind::kReducescatter, reducescatter},
};

constexpr bool in_order() {
  size_t at = 0;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (static_cast<size_t>(algorithm.kind) != at++) return false;
  }
  return at == kKinds;
}
static_assert(in_order());

}  // namespace

Program start(LaneState& state, const Work& work) { return kAlgorithms[static_cast<size_t>(work.kind)].program(state, work); }

}  // namespace hvd::collectives
