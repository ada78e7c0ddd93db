// SPDX-License-Identifier: Apache-2.0
// The block pipeline behind every large reduction on one host. For each block, a member hands every
// other member the chunk that this one owns, reduces its own chunk from all contributions in member
// order, publishes the result and takes the others' results. The next block is handed over before
// the current one is reduced, so that nobody waits for a member that is a little late.
#include "collectives/lane_communicator.h"

namespace hvd::collectives {

Program LaneCommunicator::reduce_in_blocks(ReduceJob job) {
  if (several_hosts()) return reduce_flat(std::move(job));
  return reduce_on_host(std::move(job));
}

Program LaneCommunicator::reduce_on_host(ReduceJob job) {
  const Blocks& blocks = job.blocks;
  const uint32_t first = slots_.begin(static_cast<uint32_t>(blocks.count()));
  const int n = slots_.count();
  const int me = slots_.me();
  Cursor put(job.segments);
  Cursor own(job.segments);
  Cursor take(job.segments);
  for (size_t step = 0; step <= blocks.count(); ++step) {
    if (step < blocks.count()) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await slots_.writable(q, round);
      }
      hand_over(job, put, round, [&](int q) { return blocks.range(step, slots_.member(q)); });
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await slots_.filled(q, round);
      chunks_[static_cast<size_t>(slots_.member(q))] = q != me ? slots_.receive_chunk(round, q) : nullptr;
    }
    cache_topology_.look(round);
    const Range mine = blocks.range(block, lane_.me);
    std::byte* result = slots_.result(round);
    if (job.stage_own) {
      gather(job, own, mine, result);
      chunks_[static_cast<size_t>(lane_.me)] = result;
    }
    combine(job, own, mine, chunks_.size(), result, job.collect);
    slots_.publish(round);
    if (!job.collect) continue;
    for (int k = 1; k < n; ++k) {  // everyone begins with another, so that not all read the same memory
      const int q = (me + k) % n;
      co_await slots_.published(q, round);
      scatter(take, blocks.range(block, slots_.member(q)), slots_.result_of(round, q));
    }
  }
}

}  // namespace hvd::collectives
