// SPDX-License-Identifier: Apache-2.0
// Reductions over several hosts that treat all members alike: every member reduces its chunk of
// each block from what all others send it, through the slots or over a stream. The same network
// carries the data of all members of a host, not their sum; for Adasum, which needs every member's
// vector, and where hierarchical_allreduce is off.
#include <cstring>

#include "collectives/inter_host_pipeline.h"
#include "collectives/reduce.h"

namespace hvd::collectives {

namespace {

// How far the buffer has been filled and emptied, in blocks.
struct FlatBuffer {
  Cursor cursor;
  size_t staged = 0;
  size_t released = 0;
};

std::unique_ptr<InterHostPipeline> pipeline_flat(LaneState& state, const ReduceJob& job) {
  InterHostPipeline::Setup setup{.segments = job.segments, .blocks = job.blocks};
  setup.mine = state.me();
  for (int m = 0; m < state.size(); ++m) {
    if (state.remote(m)) setup.to.push_back({&state.stream(m), m, m});
    if (job.stage_own || !job.wanted) setup.pieces.push_back(m);
  }
  setup.from = setup.to;
  setup.results = job.collect;
  setup.ahead = blocks_ahead(job.blocks, static_cast<size_t>(state.size()));
  return std::make_unique<InterHostPipeline>(std::move(setup), state.effort, nullptr);
}

// With a buffer: takes out of it what has come back, and brings what the members on other hosts are
// to get into it.
void turn_buffer_over(LaneState& state, const ReduceJob& job, InterHostPipeline& pipeline,
                      FlatBuffer& buffer) {
  const size_t count = job.blocks.count();
  for (; buffer.released < count && pipeline.has_total(buffer.released);
       pipeline.release(++buffer.released)) {
    for (int m = 0; m < state.size() && job.collect; ++m) {
      if (state.remote(m))
        scatter(state, buffer.cursor, job.blocks.range(buffer.released, m),
                pipeline.buffer(buffer.released, m));
    }
  }
  for (; buffer.staged < count && pipeline.has_room(buffer.staged);
       pipeline.contribute(++buffer.staged)) {
    for (int m = 0; m < state.size(); ++m) {
      if (state.remote(m))
        gather(state, job, buffer.cursor, job.blocks.range(buffer.staged, m),
               pipeline.buffer(buffer.staged, m));
    }
  }
}

// Puts all contributions to the own chunk together; leaves the result where it is sent from.
void add_members(LaneState& state, const ReduceJob& job, InterHostPipeline& pipeline,
                 Cursor& cursor, size_t block, uint32_t round) {
  for (int q = 0; q < state.slots.count(); ++q) {
    if (q != state.slots.me())
      state.chunks[static_cast<size_t>(state.slots.member(q))] =
          state.slots.receive_chunk(round, q);
  }
  for (int m = 0, i = 0; m < state.size(); ++m) {
    if (state.remote(m))
      state.chunks[static_cast<size_t>(m)] = pipeline.received(block, static_cast<size_t>(i++));
  }
  const Range mine = job.blocks.range(block, state.me());
  std::byte* result = state.slots.result(round);
  state.chunks[static_cast<size_t>(state.me())] = job.stage_own ? result : nullptr;
  if (job.stage_own) gather(state, job, cursor, mine, result);
  combine(state, job, cursor, mine, state.chunks.size(), result, job.collect);
  if (job.collect && pipeline.buffered())
    std::memcpy(pipeline.buffer(block, state.me()), result, mine.size());
  pipeline.reduced(block + 1);
}

}  // namespace

Program reduce_flat(LaneState& state, ReduceJob job) {
  const size_t count = job.blocks.count();
  const uint32_t first = state.slots.begin(static_cast<uint32_t>(count));
  const int n = state.slots.count();
  const int me = state.slots.me();
  const std::unique_ptr<InterHostPipeline> pipeline = pipeline_flat(state, job);
  StreamTransfers& transfers = pipeline->transfers();
  Cursor put(job.segments);
  Cursor own(job.segments);
  Cursor take(job.segments);
  FlatBuffer buffer{Cursor(job.segments)};
  const std::function<void()> serve = [&state, &job, &buffer, c = pipeline.get()] {
    turn_buffer_over(state, job, *c, buffer);
  };
  if (!pipeline->buffered()) {
    buffer.staged = buffer.released = count;
    pipeline->contribute(count);
    pipeline->release(count);
  }
  for (size_t step = 0; step <= count; ++step) {
    if (step < count) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await transfers.meanwhile(state.slots.writable(q, round));
      }
      hand_over(state, job, put, round,
                [&](int q) { return job.blocks.range(step, state.slots.member(q)); });
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    co_await transfers.until([&] {
      serve();
      return buffer.staged > block && pipeline->has_inputs(block);
    });
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await transfers.meanwhile(state.slots.filled(q, round));
    }
    state.cache_topology.look(round);
    add_members(state, job, *pipeline, own, block, round);
    transfers.progress();
    state.slots.publish(round);
    if (!job.collect) continue;
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await transfers.meanwhile(state.slots.published(q, round));
      scatter(state, take, job.blocks.range(block, state.slots.member(q)),
              state.slots.result_of(round, q));
    }
  }
  co_await transfers.until([&] {
    serve();
    return buffer.released == count && transfers.finished();
  });
}

}  // namespace hvd::collectives
