// SPDX-License-Identifier: Apache-2.0
// What the reducing collectives share: the job, the ways in which it is distributed, and putting
// contributions together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/inter_host_pipeline.h"
#include "collectives/lane_state.h"
#include "collectives/patterns.h"
#include "collectives/program.h"
#include "collectives/virtual_vector.h"
#include "collectives/work.h"

namespace hvd::collectives {

// The use of the members' contributions once they are side by side.
enum class Combine {
  kReduce,        // op
  kInnerProduct,  // adds the products of all pairs to `gram`; there is no result
  kWeightedSum,   // with `weights`
};

// A reduction, however it is distributed.
struct ReduceJob {
  std::vector<Segment> segments;
  size_t total = 0;  // bytes of all segments
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  // own input is first brought into one piece: scaled, or filled in for a joined member
  bool stage_own = false;
  bool many_tiny = false;  // segments are too small to be handled one by one; implies stage_own
  bool wanted = true;      // results have somewhere to go
  Combine combine = Combine::kReduce;
  double* gram = nullptr;           // per segment n x n, n members
  const double* weights = nullptr;  // per segment n

  // only if the owners' shares are consecutive: where they begin, and the end
  std::vector<size_t> bounds;
  Blocks blocks;        // how the data is divided among the owners
  bool collect = true;  // every member receives what the others reduced
};

// A job with the operator and factors of the work, without data.
ReduceJob job_of(const Work& work);

// The ways of a job, a file each.
Program reduce_in_blocks(LaneState& state, ReduceJob job);
Program reduce_flat(LaneState& state, ReduceJob job);
Program reduce_by_hosts(LaneState& state, ReduceJob job);
Program adasum(LaneState& state, ReduceJob job);

// Brings the own input to `range` into one piece.
void gather(LaneState& state, const ReduceJob& job, Cursor& cursor, Range range, std::byte* to,
            bool for_far = false);
// Brings `from` into the outputs at `range`.
void scatter(LaneState& state, Cursor& cursor, Range range, const std::byte* from);
// Puts the contributions in the first n of state.chunks to `range` together, in order: into the
// tensors, and into `result` if keep_result. `result` is also used as scratch.
void combine(LaneState& state, const ReduceJob& job, Cursor& cursor, Range range, size_t n,
             std::byte* result, bool keep_result);
// Combines the first n of state.chunks into `result`, which may be one of them.
void combine_flat(LaneState& state, const ReduceJob& job, size_t n, size_t bytes, std::byte* result,
                  double postscale);
// Reduces the chunks of this host's members into `result`, unscaled. The own chunk, null, is what
// the tensors have.
void add_local(LaneState& state, const ReduceJob& job, Cursor& cursor, Range range,
               std::byte* result);

// Fills a round: the send buffer gets range_of(q) for each other member q of this host.
template <class RangeOf>
void hand_over(LaneState& state, const ReduceJob& job, Cursor& cursor, uint32_t round,
               RangeOf&& range_of) {
  const Slots& slots = state.slots;
  for (int q = 0; q < slots.count(); ++q) {
    if (q != slots.me())
      gather(state, job, cursor, range_of(q), slots.send_buffer(round, q),
             state.cache_topology.far(q));
  }
  state.cache_topology.show(round);
  slots.fill(round);
}

// Between hosts. How far inputs run ahead of results when a block of everyone's has so many pieces.
size_t blocks_ahead(const Blocks& blocks, size_t pieces);
// Puts the hosts' contributions to the own piece together: over this host's in the buffer, or into
// the tensors.
void add_hosts(LaneState& state, const ReduceJob& job, InterHostPipeline& pipeline, Cursor& cursor,
               size_t block, int mine, bool to_tensors);

}  // namespace hvd::collectives
