// SPDX-License-Identifier: Apache-2.0
// The block pipeline behind every large reduction. Of each block, a member hands every other member its chunk, reduces its
// own chunk from all contributions in member order, publishes the result and takes the others' results. On one host this
// goes through the slots, and the next block is handed over before the current one is reduced, so that nobody waits for a
// member that is a little late; between hosts it goes over streams.
#include "collectives/lane_communicator.h"

namespace hvd::collectives {

Program LaneCommunicator::reduce_in_blocks(ReduceJob job) {
  const Blocks& blocks = job.blocks;
  const uint32_t first = slots_.begin(static_cast<uint32_t>(blocks.count()));
  const int n = slots_.count();
  const int me = slots_.me();
  Cursor put(job.parts);
  Cursor own(job.parts);
  Cursor take(job.parts);
  Exchange exchange(several_hosts() ? size() : 0);
  for (size_t step = 0; step <= blocks.count(); ++step) {
    if (step < blocks.count()) {  // one block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await slots_.writable(q, round);
      }
      for (int q = 0; q < n; ++q) {
        if (q != me) gather(job, put, blocks.range(step, slots_.member(q)), slots_.outbox(round, q));
      }
      slots_.fill(round);
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    if (several_hosts()) {
      exchange_inputs(job, block, exchange);
      co_await exchange.done(first_remote());
    }
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await slots_.filled(q, round);
      chunks_[static_cast<size_t>(slots_.member(q))] = q != me ? slots_.inbox(round, q) : nullptr;
    }
    const Range mine = blocks.range(block, lane_.me);
    std::byte* result = slots_.result(round);
    if (job.stage_own) {
      gather(job, own, mine, result);
      chunks_[static_cast<size_t>(lane_.me)] = result;
    }
    combine(job, own, mine, result, job.collect);
    slots_.publish(round);
    if (!job.collect) continue;
    if (several_hosts()) {
      exchange_results(job, block, result, exchange);
      co_await exchange.done(first_remote());
    }
    for (int k = 1; k < n; ++k) {  // everyone begins with another, so that not all read the same memory
      const int q = (me + k) % n;
      co_await slots_.published(q, round);
      scatter(take, blocks.range(block, slots_.member(q)), slots_.result_of(round, q));
    }
  }
}

void LaneCommunicator::exchange_inputs(const ReduceJob& job, size_t block, Exchange& exchange) {
  const size_t room = slots_.chunk();
  received_.resize(room * static_cast<size_t>(size()));
  if (job.stage_own) prepared_.resize(room * static_cast<size_t>(size()));
  const Range mine = job.blocks.range(block, lane_.me);
  Cursor cursor(job.parts);
  exchange.clear();
  for (int m = 0; m < size(); ++m) {
    if (!remote(m)) continue;
    const size_t place = room * static_cast<size_t>(m);
    const Range theirs = job.blocks.range(block, m);
    if (job.stage_own) {
      gather(job, cursor, theirs, prepared_.data() + place);
      exchange.send(stream(m), prepared_.data() + place, theirs.size());
    } else {
      exchange.send(stream(m), job.parts, theirs);
    }
    exchange.receive(stream(m), received_.data() + place, mine.size());
    chunks_[static_cast<size_t>(m)] = received_.data() + place;
  }
}

void LaneCommunicator::exchange_results(const ReduceJob& job, size_t block, const std::byte* result, Exchange& exchange) {
  const Range mine = job.blocks.range(block, lane_.me);
  exchange.clear();
  for (int m = 0; m < size(); ++m) {
    if (!remote(m)) continue;
    const Range theirs = job.blocks.range(block, m);
    exchange.send(stream(m), result, mine.size());
    if (job.wanted) {
      exchange.receive(stream(m), job.parts, theirs);
    } else {
      exchange.receive(stream(m), received_.data() + slots_.chunk() * static_cast<size_t>(m), theirs.size());
    }
  }
}

int LaneCommunicator::first_remote() const {
  for (int m = 0; m < size(); ++m) {
    if (remote(m)) return m;
  }
  return -1;
}

}  // namespace hvd::collectives
