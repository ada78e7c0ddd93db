// SPDX-License-Identifier: Apache-2.0
// Hierarchical allreduce over several hosts. For each block, an owner on every host reduces the
// contributions of its host through the slots; the owners of the same chunk share it out in one
// piece per host, send each other what the pieces need, and publish the total in a later round. So
// a host sends and receives 2 (H - 1) / H of the data of H hosts, the least possible. There are as
// many owners as the smallest host has members. The hosts' sums are combined in host order and
// every piece by one member, so all members end up with the same bytes.
//
// Small allreduces have one owner per host, which sends its host's sum to all others, so data goes
// one way only.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "collectives/inter_host_pipeline.h"
#include "collectives/reduce.h"

namespace hvd::collectives {

namespace {

// How the data is shared out. Pieces are numbered by owner, then by host.
struct Owners {
  // every host gets the sums of all others at once, with a single piece per owner
  bool one_way = false;
  int per_host = 1;
  int pieces = 1;    // per owner
  size_t ahead = 1;  // blocks whose inputs are sent before the first result; the same on all hosts
  Blocks blocks;
  Range slice(size_t block, int owner) const {
    return {blocks.range(block, owner * pieces).begin,
            blocks.range(block, owner * pieces + pieces - 1).end};
  }
};

// A piece where every member has a host to itself and the slots set no limit. Half of that leaves
// the system too often.
constexpr size_t kPiece = size_t{256} << 10;

// Below this a piece costs more by itself than by its bytes; then some hosts of many own none.
constexpr size_t kSmallestPiece = 1024;

// Up to here one way with all data is faster than two with a share of it.
constexpr size_t kOneWayBytes = size_t{64} << 10;

// Rounds in the slots from a block's sum to its total, at most. Each waits for all members of the
// host, so no more than the network needs.
constexpr size_t kRoundsBetween = 4;

Owners choose_owners(const LaneState& state, const ReduceJob& job) {
  Owners owners;
  const int hosts = state.host_map.hosts();
  const size_t room =
      state.host_map.alone() ? kPiece * static_cast<size_t>(hosts) : state.slots.chunk();
  owners.one_way =
      job.total <= std::min(kOneWayBytes / static_cast<size_t>(hosts - 1), state.slots.chunk());
  owners.per_host = owners.one_way ? 1 : state.host_map.smallest();
  owners.pieces =
      owners.one_way ? 1 : std::clamp(static_cast<int>(room / kSmallestPiece), 1, hosts);
  const size_t piece = room / static_cast<size_t>(owners.pieces) / kGrain * kGrain;
  owners.blocks = Blocks::interleaved(job.total, owners.per_host * owners.pieces, piece);
  owners.ahead = blocks_ahead(owners.blocks, static_cast<size_t>(owners.pieces));
  if (!state.host_map.alone())
    owners.ahead = std::min({owners.ahead, kRoundsBetween, (owners.blocks.count() + 1) / 2});
  return owners;
}

std::unique_ptr<InterHostPipeline> pipeline_by_hosts(LaneState& state, const ReduceJob& job,
                                                     const Owners& owners, bool buffered) {
  const int owner = state.host_map.place(state.me());
  const int my_host = state.host_map.host(state.me());
  const auto piece_of = [&](int host) {
    if (owners.one_way) return 0;
    return host < owners.pieces ? owner * owners.pieces + host : InterHostPipeline::kNoPiece;
  };
  InterHostPipeline::Setup setup{.segments = job.segments, .blocks = owners.blocks};
  setup.mine = piece_of(my_host);
  for (int host = 0; host < state.host_map.hosts(); ++host) {
    if (host == my_host) continue;
    const int peer = state.host_map.members(host)[static_cast<size_t>(owner)];
    setup.to.push_back({&state.stream(peer), peer, piece_of(host)});
  }
  setup.from = setup.to;
  for (int piece = 0; buffered && piece < owners.pieces; ++piece)
    setup.pieces.push_back(owner * owners.pieces + piece);
  setup.results = !owners.one_way;
  setup.reduces_inputs = owners.one_way;
  setup.ahead = owners.ahead;
  return std::make_unique<InterHostPipeline>(
      std::move(setup), state.effort,
      [&state, &job, mine = setup.mine, cursor = Cursor(job.segments)](InterHostPipeline& pipeline,
                                                                       size_t block) mutable {
        add_hosts(state, job, pipeline, cursor, block, mine, false);
      });
}

// What waits for `condition` in the slots keeps the bytes of an owner moving.
Condition moving(const std::unique_ptr<InterHostPipeline>& pipeline, const Condition& condition) {
  return pipeline ? pipeline->transfers().meanwhile(condition) : condition;
}

}  // namespace

Program reduce_by_hosts(LaneState& state, ReduceJob job) {
  const Owners owners = choose_owners(state, job);
  const int n = state.slots.count();
  const int me = state.slots.me();
  const bool in_tensors = n == 1 && !job.stage_own && job.wanted;
  std::unique_ptr<InterHostPipeline> pipeline;  // null: not an owner
  if (me < owners.per_host) pipeline = pipeline_by_hosts(state, job, owners, !in_tensors);
  if (in_tensors) {
    pipeline->contribute(owners.blocks.count());
    co_await pipeline->until_finished();
    co_return;
  }
  const size_t count = owners.blocks.count();
  // rounds until a block's total is due: no sooner than it can be there
  const size_t lag = std::min(owners.ahead, count);
  const size_t rounds = count + lag;
  const uint32_t first = state.slots.begin(static_cast<uint32_t>(rounds));
  Cursor put(job.segments);
  Cursor own(job.segments);
  Cursor take(job.segments);
  for (size_t step = 0; step <= rounds; ++step) {
    if (step < rounds) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await moving(pipeline, state.slots.writable(q, round));
      }
      hand_over(state, job, put, round, [&](int q) {
        return q < owners.per_host && step < count ? owners.slice(step, q) : Range{};
      });
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await moving(pipeline, state.slots.filled(q, round));
    }
    state.cache_topology.look(round);
    if (pipeline && block < count) {
      co_await pipeline->transfers().until(
          [c = pipeline.get(), block] { return c->has_room(block); });
      for (int q = 0; q < n; ++q) {
        state.chunks[static_cast<size_t>(q)] =
            q != me ? state.slots.receive_chunk(round, q) : nullptr;
      }
      add_local(state, job, own, owners.slice(block, me),
                pipeline->buffer(block, me * owners.pieces));
      pipeline->contribute(block + 1);
      pipeline->transfers().progress();
    }
    if (pipeline && block >= lag) {
      const size_t due = block - lag;
      co_await pipeline->transfers().until([c = pipeline.get(), due] { return c->has_total(due); });
      const std::byte* total = pipeline->buffer(due, me * owners.pieces);
      if (n > 1)
        copy_for(state.cache_topology.far_from_most(), state.slots.result(round), total,
                 owners.slice(due, me).size());
      scatter(state, own, owners.slice(due, me), total);
      pipeline->release(due + 1);
    }
    state.slots.publish(round);
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await moving(pipeline, state.slots.published(q, round));
      if (block >= lag && q < owners.per_host)
        scatter(state, take, owners.slice(block - lag, q), state.slots.result_of(round, q));
    }
  }
  if (pipeline) co_await pipeline->until_finished();
}

}  // namespace hvd::collectives
