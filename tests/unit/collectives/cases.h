// SPDX-License-Identifier: Apache-2.0
// One collective with random arguments and its expected outcome, the same on every member for the
// same seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/algorithms.h"

namespace hvd::test {

using collectives::Kind;

struct Case {
  uint64_t seed = 0;
  Kind kind = Kind::kAllreduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  bool in_place = false;
  std::vector<bool> joined;  // per member; reductions only
  int root = 0;
  // per item; allreduce and broadcast (bytes of the first)
  std::vector<size_t> counts;
  // per item and member: allgather (bytes), reducescatter (elements)
  std::vector<std::vector<size_t>> shares;
  std::vector<std::vector<size_t>> splits;  // per sender and receiver: alltoall (bytes)

  std::string describe() const;
};

// `largest`: bytes of one tensor; most are much smaller, and a few much larger tensors than slots
// are wanted.
Case random_case(uint64_t seed, int members, size_t largest);

struct Place {
  int member;
  std::vector<int> host_of;
  bool by_hosts;  // reductions combine within the hosts first
};

using Runner = std::function<void(collectives::Program)>;

// Runs the case on one member and compares its outputs byte by byte. Returns "" or what is wrong.
std::string run_case(const Case& test, const Place& place, collectives::LaneState& state,
                     const Runner& runner);

}  // namespace hvd::test
