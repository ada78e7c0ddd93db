// SPDX-License-Identifier: Apache-2.0
// Reductions over several hosts that treat all members alike: every member reduces its chunk of each block from what all
// others send it, through the slots or over a stream. The same network carries the data of all members of a host, not their
// sum; for Adasum, which needs every member's vector, and where hierarchical_allreduce is off.
#include <cstring>

#include "collectives/inter_host_pipeline.h"
#include "collectives/lane_communicator.h"

namespace hvd::collectives {

std::unique_ptr<InterHostPipeline> LaneCommunicator::pipeline_flat(const ReduceJob& job) const {
  InterHostPipeline::Setup setup{.segments = job.segments, .blocks = job.blocks};
  setup.mine = lane_.me;
  for (int m = 0; m < size(); ++m) {
    if (remote(m)) setup.to.push_back({&stream(m), m, m});
    if (job.stage_own || !job.wanted) setup.pieces.push_back(m);
  }
  setup.from = setup.to;
  setup.results = job.collect;
  setup.ahead = blocks_ahead(job.blocks, static_cast<size_t>(size()));
  return std::make_unique<InterHostPipeline>(std::move(setup), nullptr);
}

// With a buffer: takes out of it what has come back, and brings what the members on other hosts are to get into it.
void LaneCommunicator::turn_buffer_over(const ReduceJob& job, InterHostPipeline& pipeline, FlatBuffer& buffer) const {
  const size_t count = job.blocks.count();
  for (; buffer.released < count && pipeline.has_total(buffer.released); pipeline.release(++buffer.released)) {
    for (int m = 0; m < size() && job.collect; ++m) {
      if (remote(m)) scatter(buffer.cursor, job.blocks.range(buffer.released, m), pipeline.buffer(buffer.released, m));
    }
  }
  for (; buffer.staged < count && pipeline.has_room(buffer.staged); pipeline.contribute(++buffer.staged)) {
    for (int m = 0; m < size(); ++m) {
      if (remote(m)) gather(job, buffer.cursor, job.blocks.range(buffer.staged, m), pipeline.buffer(buffer.staged, m));
    }
  }
}

// Puts all contributions to the own chunk together; leaves the result where it is sent from.
void LaneCommunicator::add_members(const ReduceJob& job, InterHostPipeline& pipeline, Cursor& cursor, size_t block,
                                   uint32_t round) {
  for (int q = 0; q < slots_.count(); ++q) {
    if (q != slots_.me()) chunks_[static_cast<size_t>(slots_.member(q))] = slots_.receive_chunk(round, q);
  }
  for (int m = 0, i = 0; m < size(); ++m) {
    if (remote(m)) chunks_[static_cast<size_t>(m)] = pipeline.received(block, static_cast<size_t>(i++));
  }
  const Range mine = job.blocks.range(block, lane_.me);
  std::byte* result = slots_.result(round);
  chunks_[static_cast<size_t>(lane_.me)] = job.stage_own ? result : nullptr;
  if (job.stage_own) gather(job, cursor, mine, result);
  combine(job, cursor, mine, chunks_.size(), result, job.collect);
  if (job.collect && pipeline.buffered()) std::memcpy(pipeline.buffer(block, lane_.me), result, mine.size());
  pipeline.reduced(block + 1);
}

Program LaneCommunicator::reduce_flat(ReduceJob job) {
  const size_t count = job.blocks.count();
  const uint32_t first = slots_.begin(static_cast<uint32_t>(count));
  const int n = slots_.count();
  const int me = slots_.me();
  const std::unique_ptr<InterHostPipeline> pipeline = pipeline_flat(job);
  StreamTransfers& transfers = pipeline->transfers();
  Cursor put(job.segments);
  Cursor own(job.segments);
  Cursor take(job.segments);
  FlatBuffer buffer{Cursor(job.segments)};
  const std::function<void()> serve = [this, &job, &buffer, c = pipeline.get()] { turn_buffer_over(job, *c, buffer); };
  if (!pipeline->buffered()) {
    buffer.staged = buffer.released = count;
    pipeline->contribute(count);
    pipeline->release(count);
  }
  for (size_t step = 0; step <= count; ++step) {
    if (step < count) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await transfers.meanwhile(slots_.writable(q, round));
      }
      hand_over(job, put, round, [&](int q) { return job.blocks.range(step, slots_.member(q)); });
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    co_await transfers.until([&] {
      serve();
      return buffer.staged > block && pipeline->has_inputs(block);
    });
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await transfers.meanwhile(slots_.filled(q, round));
    }
    cache_topology_.look(round);
    add_members(job, *pipeline, own, block, round);
    transfers.progress();
    slots_.publish(round);
    if (!job.collect) continue;
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await transfers.meanwhile(slots_.published(q, round));
      scatter(take, job.blocks.range(block, slots_.member(q)), slots_.result_of(round, q));
    }
  }
  co_await transfers.until([&] {
    serve();
    return buffer.released == count && transfers.finished();
  });
}

}  // namespace hvd::collectives
