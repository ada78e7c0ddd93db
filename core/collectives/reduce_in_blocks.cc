// SPDX-License-Identifier: Apache-2.0
// The block pipeline behind every large reduction on one host. For each block, a member hands every
// other member the chunk that this one owns, reduces its own chunk from all contributions in member
// order, publishes the result and takes the others' results. The next block is handed over before
// the current one is reduced, so that nobody waits for a member that is a little late.
#include <utility>

#include "collectives/reduce.h"

namespace hvd::collectives {

namespace {

Program reduce_on_host(LaneState& state, ReduceJob job) {
  const Blocks& blocks = job.blocks;
  const uint32_t first = state.slots.begin(static_cast<uint32_t>(blocks.count()));
  const int n = state.slots.count();
  const int me = state.slots.me();
  Cursor put(job.segments);
  Cursor own(job.segments);
  Cursor take(job.segments);
  for (size_t step = 0; step <= blocks.count(); ++step) {
    if (step < blocks.count()) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await state.slots.writable(q, round);
      }
      hand_over(state, job, put, round,
                [&](int q) { return blocks.range(step, state.slots.member(q)); });
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await state.slots.filled(q, round);
      state.chunks[static_cast<size_t>(state.slots.member(q))] =
          q != me ? state.slots.receive_chunk(round, q) : nullptr;
    }
    state.cache_topology.look(round);
    const Range mine = blocks.range(block, state.me());
    std::byte* result = state.slots.result(round);
    if (job.stage_own) {
      gather(state, job, own, mine, result);
      state.chunks[static_cast<size_t>(state.me())] = result;
    }
    combine(state, job, own, mine, state.chunks.size(), result, job.collect);
    state.slots.publish(round);
    if (!job.collect) continue;
    // everyone begins with another, so that not all read the same memory
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await state.slots.published(q, round);
      scatter(state, take, blocks.range(block, state.slots.member(q)),
              state.slots.result_of(round, q));
    }
  }
}

}  // namespace

Program reduce_in_blocks(LaneState& state, ReduceJob job) {
  if (state.several_hosts()) return reduce_flat(state, std::move(job));
  return reduce_on_host(state, std::move(job));
}

}  // namespace hvd::collectives
