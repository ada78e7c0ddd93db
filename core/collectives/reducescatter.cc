// SPDX-License-Identifier: Apache-2.0
// Reducescatter: the block pipeline with consecutive shares and without its second half.
//
// Over several hosts, every member reduces on its host not only its own share but also those of the
// members it is proxy of, and sends them there. So a host's sums cross the network, not what each
// of its members has.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/inter_host_pipeline.h"
#include "collectives/reduce.h"

namespace hvd::collectives {

namespace {

// Whether writing results piece by piece could destroy input that is still to be read. Results in
// place of the own share of the input are fine.
bool overlaps(const std::byte* in, size_t in_bytes, const std::byte* out, size_t out_bytes,
              size_t own_offset) {
  if (in == nullptr || out == nullptr || out == in + own_offset) return false;
  const std::less<const std::byte*> before;
  return before(out, in + in_bytes) && before(in, out + out_bytes);
}

// `pieces`: the shares that this member reduces on its host, its own first.
std::unique_ptr<InterHostPipeline> pipeline_shares(LaneState& state, const ReduceJob& job,
                                                   const std::vector<int>& pieces, bool buffered) {
  InterHostPipeline::Setup setup{.segments = job.segments, .blocks = job.blocks};
  setup.mine = state.me();
  for (int m : pieces) {
    if (state.remote(m)) setup.to.push_back({&state.stream(m), m, m});
  }
  for (int host = 0; host < state.host_map.hosts(); ++host) {
    if (host == state.host_map.host(state.me())) continue;
    const int proxy = state.host_map.proxy(host, state.me());
    setup.from.push_back({&state.stream(proxy), proxy, InterHostPipeline::kNoPiece});
  }
  if (buffered) setup.pieces = pieces;
  setup.results = false;
  setup.ahead = blocks_ahead(job.blocks, pieces.size());
  return std::make_unique<InterHostPipeline>(
      std::move(setup), state.effort,
      [&state, &job, cursor = Cursor(job.segments)](InterHostPipeline& pipeline,
                                                    size_t block) mutable {
        add_hosts(state, job, pipeline, cursor, block, state.me(), true);
      });
}

Program reducescatter_by_hosts(LaneState& state, ReduceJob job) {
  const int n = state.slots.count();
  const int me = state.slots.me();
  std::vector<std::vector<int>> pieces;  // per member of this host
  size_t turns = 0;                      // rounds per block
  for (int q = 0; q < n; ++q) {
    pieces.push_back(state.host_map.wards(state.slots.member(q)));
    pieces.back().insert(pieces.back().begin(), state.slots.member(q));
    turns = std::max(turns, pieces.back().size());
  }
  const std::vector<int>& mine = pieces[static_cast<size_t>(me)];
  const bool in_tensors = n == 1 && !job.stage_own && job.wanted;
  const std::unique_ptr<InterHostPipeline> pipeline =
      pipeline_shares(state, job, mine, !in_tensors);
  StreamTransfers& transfers = pipeline->transfers();
  const size_t count = job.blocks.count();
  pipeline->release(count);
  if (in_tensors) {
    pipeline->contribute(count);
    co_await pipeline->until_finished();
    co_return;
  }
  const size_t rounds = count * turns;
  const uint32_t first = state.slots.begin(static_cast<uint32_t>(rounds));
  Cursor put(job.segments);
  Cursor own(job.segments);
  for (size_t step = 0; step <= rounds; ++step) {
    if (step < rounds) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await transfers.meanwhile(state.slots.writable(q, round));
      }
      hand_over(state, job, put, round, [&](int q) {
        const std::vector<int>& theirs = pieces[static_cast<size_t>(q)];
        return step % turns < theirs.size() ? job.blocks.range(step / turns, theirs[step % turns])
                                            : Range{};
      });
    }
    if (step == 0) continue;
    const size_t block = (step - 1) / turns;
    const size_t turn = (step - 1) % turns;
    const uint32_t round = first + static_cast<uint32_t>(step - 1);
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await transfers.meanwhile(state.slots.filled(q, round));
    }
    state.cache_topology.look(round);
    co_await transfers.until([c = pipeline.get(), block] { return c->has_room(block); });
    if (turn < mine.size()) {
      for (int q = 0; q < n; ++q) {
        state.chunks[static_cast<size_t>(q)] =
            q != me ? state.slots.receive_chunk(round, q) : nullptr;
      }
      add_local(state, job, own, job.blocks.range(block, mine[turn]),
                pipeline->buffer(block, mine[turn]));
    }
    if (turn + 1 == mine.size()) pipeline->contribute(block + 1);
    transfers.progress();
    state.slots.publish(round);
  }
  co_await pipeline->until_finished();
}

Program reducescatter_now(LaneState& state, ReduceJob job) {
  if (state.several_hosts() && state.settings.hierarchical_allreduce)
    return reducescatter_by_hosts(state, std::move(job));
  return reduce_in_blocks(state, std::move(job));
}

// With results in memory of its own until all input has been read. `results` are the wanted outputs
// in order.
Program reducescatter_beside(LaneState& state, ReduceJob job, std::vector<Segment> results) {
  const size_t me = static_cast<size_t>(state.me());
  std::vector<std::byte> beside(job.bounds[me + 1] - job.bounds[me]);
  size_t at = 0;
  for (Segment& segment : job.segments) {
    if (segment.out == nullptr) continue;
    segment.out = beside.data() + at;
    at += segment.bytes;
  }
  Program inner = reducescatter_now(state, std::move(job));
  co_await over(inner);
  at = 0;
  for (const Segment& segment : results) {
    std::memcpy(segment.out, beside.data() + at, segment.bytes);
    at += segment.bytes;
  }
}

}  // namespace

Program reducescatter(LaneState& state, const Work& work) {
  const size_t element = dtype_size(work.dtype);
  const size_t n = static_cast<size_t>(state.size());
  const size_t me = static_cast<size_t>(state.me());
  ReduceJob job = job_of(work);
  job.collect = false;
  std::vector<size_t> done(work.items.size());  // per item: bytes of the members before
  std::vector<Segment> results;
  bool aliased = false;
  for (size_t m = 0; m < n; ++m) {
    job.bounds.push_back(job.total);
    for (size_t i = 0; i < work.items.size(); ++i) {
      const Item& item = work.items[i];
      const size_t bytes = item.parts[m] * element;
      const std::byte* in = static_cast<const std::byte*>(item.in);
      std::byte* out = m == me ? static_cast<std::byte*>(item.out) : nullptr;
      if (bytes != 0) {
        job.segments.push_back({in != nullptr ? in + done[i] : nullptr, out, bytes});
        if (in == nullptr) job.stage_own = true;
        if (m == me && out == nullptr) job.wanted = false;
        if (out != nullptr) {
          const size_t whole =
              std::accumulate(item.parts.begin(), item.parts.end(), size_t{0}) * element;
          aliased |= overlaps(in, whole, out, bytes, done[i]);
          results.push_back({nullptr, out, bytes});
        }
      }
      done[i] += bytes;
      job.total += bytes;
    }
  }
  job.bounds.push_back(job.total);
  job.blocks = Blocks::by_owner(job.bounds, state.slots.chunk());
  if (aliased) return reducescatter_beside(state, std::move(job), std::move(results));
  return reducescatter_now(state, std::move(job));
}

}  // namespace hvd::collectives
