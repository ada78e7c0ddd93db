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
#include <cstring>

#include "collectives/inter_host_pipeline.h"
#include "collectives/lane_communicator.h"

namespace hvd::collectives {

namespace {

// Bytes that all owners of a chunk have on their way at a time: several times what the fastest network holds in a round
// trip, and little enough to stay in the cache.
constexpr size_t kInFlight = size_t{2} << 20;

// A piece where every member has a host to itself and the slots set no limit. Half of that leaves the system too often.
constexpr size_t kPiece = size_t{256} << 10;

// Below this a piece costs more by itself than by its bytes; then some hosts of many own none.
constexpr size_t kSmallestPiece = 1024;

// Up to here one way with all data is faster than two with a share of it.
constexpr size_t kOneWayBytes = size_t{64} << 10;

// Rounds in the slots from a block's sum to its total, at most. Each waits for all members of the host, so no more than the
// network needs.
constexpr size_t kRoundsBetween = 4;

}  // namespace

size_t blocks_ahead(const Blocks& blocks, size_t pieces) {
  return std::clamp<size_t>(kInFlight / std::max<size_t>(blocks.chunk() * pieces, 1), 2, 16);
}

LaneCommunicator::Owners LaneCommunicator::choose_owners(const ReduceJob& job) const {
  Owners owners;
  const int hosts = map_.hosts();
  const size_t room = map_.alone() ? kPiece * static_cast<size_t>(hosts) : slots_.chunk();
  owners.one_way = job.total <= std::min(kOneWayBytes / static_cast<size_t>(hosts - 1), slots_.chunk());
  owners.per_host = owners.one_way ? 1 : map_.smallest();
  owners.pieces = owners.one_way ? 1 : std::clamp(static_cast<int>(room / kSmallestPiece), 1, hosts);
  const size_t piece = room / static_cast<size_t>(owners.pieces) / kGrain * kGrain;
  owners.blocks = Blocks::interleaved(job.total, owners.per_host * owners.pieces, piece);
  owners.ahead = blocks_ahead(owners.blocks, static_cast<size_t>(owners.pieces));
  if (!map_.alone()) owners.ahead = std::min({owners.ahead, kRoundsBetween, (owners.blocks.count() + 1) / 2});
  return owners;
}

std::unique_ptr<InterHostPipeline> LaneCommunicator::pipeline_by_hosts(const ReduceJob& job, const Owners& owners,
                                                                       bool buffered) {
  const int owner = map_.place(lane_.me);
  const int my_host = map_.host(lane_.me);
  const auto piece_of = [&](int host) {
    if (owners.one_way) return 0;
    return host < owners.pieces ? owner * owners.pieces + host : InterHostPipeline::kNoPiece;
  };
  InterHostPipeline::Setup setup{.segments = job.segments, .blocks = owners.blocks};
  setup.mine = piece_of(my_host);
  for (int host = 0; host < map_.hosts(); ++host) {
    if (host == my_host) continue;
    const int peer = map_.members(host)[static_cast<size_t>(owner)];
    setup.to.push_back({&stream(peer), peer, piece_of(host)});
  }
  setup.from = setup.to;
  for (int piece = 0; buffered && piece < owners.pieces; ++piece) setup.pieces.push_back(owner * owners.pieces + piece);
  setup.results = !owners.one_way;
  setup.reduces_inputs = owners.one_way;
  setup.ahead = owners.ahead;
  return std::make_unique<InterHostPipeline>(std::move(setup), [this, &job, mine = setup.mine, cursor = Cursor(job.segments)](
                                                                   InterHostPipeline& pipeline, size_t block) mutable {
    add_hosts(job, pipeline, cursor, block, mine, false);
  });
}

// Puts the hosts' contributions to the own piece together: over this host's in the buffer, or into the tensors.
void LaneCommunicator::add_hosts(const ReduceJob& job, InterHostPipeline& pipeline, Cursor& cursor, size_t block, int mine,
                                 bool to_tensors) {
  const Range range = pipeline.range(block, mine);
  if (range.size() == 0) return;
  const size_t hosts = static_cast<size_t>(map_.hosts());
  const size_t my_host = static_cast<size_t>(map_.host(lane_.me));
  std::byte* own = pipeline.buffered() ? pipeline.buffer(block, mine) : nullptr;
  for (size_t h = 0, i = 0; h < hosts; ++h) chunks_[h] = h == my_host ? own : pipeline.received(block, i++);
  if (own != nullptr && !to_tensors) {
    combine_flat(job, hosts, range.size(), own, job.postscale);
  } else {
    combine(job, cursor, range, hosts, own, false);
  }
}

Program LaneCommunicator::reduce_by_hosts(ReduceJob job) {
  const Owners owners = choose_owners(job);
  const int n = slots_.count();
  const int me = slots_.me();
  const bool in_tensors = n == 1 && !job.stage_own && job.wanted;
  std::unique_ptr<InterHostPipeline> pipeline;  // null: not an owner
  if (me < owners.per_host) pipeline = pipeline_by_hosts(job, owners, !in_tensors);
  if (in_tensors) {
    pipeline->contribute(owners.blocks.count());
    co_await pipeline->until_finished();
    co_return;
  }
  const size_t count = owners.blocks.count();
  const size_t lag = std::min(owners.ahead, count);  // rounds until a block's total is due: no sooner than it can be there
  const size_t rounds = count + lag;
  const uint32_t first = slots_.begin(static_cast<uint32_t>(rounds));
  Cursor put(job.segments);
  Cursor own(job.segments);
  Cursor take(job.segments);
  for (size_t step = 0; step <= rounds; ++step) {
    if (step < rounds) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await moving(pipeline, slots_.writable(q, round));
      }
      hand_over(job, put, round, [&](int q) { return q < owners.per_host && step < count ? owners.slice(step, q) : Range{}; });
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await moving(pipeline, slots_.filled(q, round));
    }
    cache_topology_.look(round);
    if (pipeline && block < count) {
      co_await pipeline->transfers().until([c = pipeline.get(), block] { return c->has_room(block); });
      for (int q = 0; q < n; ++q) chunks_[static_cast<size_t>(q)] = q != me ? slots_.receive_chunk(round, q) : nullptr;
      add_local(job, own, owners.slice(block, me), pipeline->buffer(block, me * owners.pieces));
      pipeline->contribute(block + 1);
      pipeline->transfers().progress();
    }
    if (pipeline && block >= lag) {
      const size_t due = block - lag;
      co_await pipeline->transfers().until([c = pipeline.get(), due] { return c->has_total(due); });
      const std::byte* total = pipeline->buffer(due, me * owners.pieces);
      if (n > 1) copy_for(cache_topology_.far_from_most(), slots_.result(round), total, owners.slice(due, me).size());
      scatter(own, owners.slice(due, me), total);
      pipeline->release(due + 1);
    }
    slots_.publish(round);
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await moving(pipeline, slots_.published(q, round));
      if (block >= lag && q < owners.per_host) scatter(take, owners.slice(block - lag, q), slots_.result_of(round, q));
    }
  }
  if (pipeline) co_await pipeline->until_finished();
}

}  // namespace hvd::collectives
