// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce.h"

#include <algorithm>
#include <cstring>

#include "base/ticks.h"
#include "kernels/reduce.h"

namespace hvd::collectives {

namespace {

// Bytes that all owners of a chunk have on their way at a time: several times what the fastest
// network holds in a round trip, and little enough to stay in the cache.
constexpr size_t kInFlight = size_t{2} << 20;

// Puts the first n of state.sources together into `out` and, if not null, `copy`.
void combine_stretch(LaneState& state, const ReduceJob& job, const Segment& segment, size_t n,
                     void* out, void* copy, size_t count) {
  const size_t index = static_cast<size_t>(&segment - job.segments.data());
  // The copy is for others to read. Between hosts this member sends it on.
  const bool read_here = copy != nullptr && !state.several_hosts();
  const bool non_temporal = read_here && stores_non_temporally(state.cache_topology.far_from_most(),
                                                               count * dtype_size(job.dtype));
  switch (job.combine) {
    case Combine::kReduce:
      kernels::reduce({.dtype = job.dtype,
                       .op = job.op,
                       .dst = non_temporal ? copy : out,
                       .dst2 = non_temporal ? out : copy,
                       .srcs = state.sources.data(),
                       .nsrc = n,
                       .count = count,
                       .postscale = job.postscale,
                       .non_temporal = non_temporal});
      return;
    case Combine::kInnerProduct:
      kernels::gram(job.dtype, state.sources.data(), n, count, job.gram + index * n * n);
      return;
    case Combine::kWeightedSum:
      kernels::weighted_sum(job.dtype, out, copy, state.sources.data(), job.weights + index * n, n,
                            count, job.postscale);
      return;
  }
}

}  // namespace

ReduceJob job_of(const Work& work) {
  ReduceJob job;
  job.dtype = work.dtype;
  job.op = work.op;
  job.prescale = work.prescale;
  job.postscale = work.postscale;
  job.stage_own = work.prescale != 1.0;
  return job;
}

void gather(LaneState& state, const ReduceJob& job, Cursor& cursor, Range range, std::byte* to,
            bool for_far) {
  const CopyScope scope(state.effort, range.size());
  const size_t element = dtype_size(job.dtype);
  cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    if (segment.in == nullptr) {
      kernels::fill_identity(job.dtype, job.op, to + done, length / element);
    } else if (job.prescale != 1.0) {
      kernels::scale(job.dtype, to + done, segment.in + offset, length / element, job.prescale);
    } else {
      copy_for(for_far, to + done, segment.in + offset, length);
    }
  });
}

void scatter(LaneState& state, Cursor& cursor, Range range, const std::byte* from) {
  const CopyScope scope(state.effort, range.size());
  cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    // Writing with non-temporal stores was measured to be no faster even for results far larger
    // than them.
    if (segment.out != nullptr) std::memcpy(segment.out + offset, from + done, length);
  });
}

void combine(LaneState& state, const ReduceJob& job, Cursor& cursor, Range range, size_t n,
             std::byte* result, bool keep_result) {
  if (range.begin >= range.end) return;
  const size_t element = dtype_size(job.dtype);
  if (job.many_tiny && job.combine == Combine::kReduce) {
    for (size_t m = 0; m < n; ++m) state.sources[m] = state.chunks[m];
    {
      const TickScope scope(state.effort.reduced);
      combine_stretch(state, job, job.segments[0], n, result, nullptr, range.size() / element);
    }
    scatter(state, cursor, range, result);
    return;
  }
  const TickScope scope(state.effort.reduced);
  cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    for (size_t m = 0; m < n; ++m)
      state.sources[m] = state.chunks[m] != nullptr ? state.chunks[m] + done : segment.in + offset;
    void* out = segment.out != nullptr ? segment.out + offset : result + done;
    void* copy = segment.out != nullptr && keep_result ? result + done : nullptr;
    combine_stretch(state, job, segment, n, out, copy, length / element);
  });
}

void combine_flat(LaneState& state, const ReduceJob& job, size_t n, size_t bytes, std::byte* result,
                  double postscale) {
  const TickScope scope(state.effort.reduced);
  std::copy_n(state.chunks.begin(), n, state.sources.begin());
  kernels::reduce({.dtype = job.dtype,
                   .op = job.op,
                   .dst = result,
                   .dst2 = nullptr,
                   .srcs = state.sources.data(),
                   .nsrc = n,
                   .count = bytes / dtype_size(job.dtype),
                   .postscale = postscale,
                   .non_temporal = false});
}

void add_local(LaneState& state, const ReduceJob& job, Cursor& cursor, Range range,
               std::byte* result) {
  const size_t n = static_cast<size_t>(state.slots.count());
  if (job.stage_own) {
    gather(state, job, cursor, range, result);
    state.chunks[static_cast<size_t>(state.slots.me())] = result;
    combine_flat(state, job, n, range.size(), result, 1.0);
    return;
  }
  const TickScope scope(state.effort.reduced);
  const size_t element = dtype_size(job.dtype);
  cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    for (size_t m = 0; m < n; ++m)
      state.sources[m] = state.chunks[m] != nullptr ? state.chunks[m] + done : segment.in + offset;
    kernels::reduce({.dtype = job.dtype,
                     .op = job.op,
                     .dst = result + done,
                     .dst2 = nullptr,
                     .srcs = state.sources.data(),
                     .nsrc = n,
                     .count = length / element,
                     .postscale = 1.0,
                     .non_temporal = false});
  });
}

size_t blocks_ahead(const Blocks& blocks, size_t pieces) {
  return std::clamp<size_t>(kInFlight / std::max<size_t>(blocks.chunk() * pieces, 1), 2, 16);
}

void add_hosts(LaneState& state, const ReduceJob& job, InterHostPipeline& pipeline, Cursor& cursor,
               size_t block, int mine, bool to_tensors) {
  const Range range = pipeline.range(block, mine);
  if (range.size() == 0) return;
  const size_t hosts = static_cast<size_t>(state.host_map.hosts());
  const size_t my_host = static_cast<size_t>(state.host_map.host(state.me()));
  std::byte* own = pipeline.buffered() ? pipeline.buffer(block, mine) : nullptr;
  for (size_t h = 0, i = 0; h < hosts; ++h)
    state.chunks[h] = h == my_host ? own : pipeline.received(block, i++);
  if (own != nullptr && !to_tensors) {
    combine_flat(state, job, hosts, range.size(), own, job.postscale);
  } else {
    combine(state, job, cursor, range, hosts, own, false);
  }
}

}  // namespace hvd::collectives
