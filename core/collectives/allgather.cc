// SPDX-License-Identifier: Apache-2.0
// Allgather: every member streams its input through its send buffer, which all others on its host
// read. To every other host it sends its input once, to its proxy there, which passes it on through
// its own send buffer after its own input; unless hierarchical_allgather is off: then it sends its
// input to everyone.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/ticks.h"
#include "collectives/algorithms.h"
#include "collectives/stream_transfer.h"
#include "collectives/virtual_vector.h"

namespace hvd::collectives {

namespace {

// Received bytes are passed on in portions of this size.
constexpr size_t kPortion = kLargestChunk;

// The plan of a gather. The segments are in the order in which the members of this host pass them
// on.
struct GatherJob {
  std::vector<Segment> segments;
  std::vector<size_t> bounds;  // per member of this host, the bytes that the member passes on
  std::vector<Range> shares;   // per member, the place of the contribution
  std::vector<int> to;         // members on other hosts that get this one's contribution directly
  std::vector<int> from;       // members on other hosts that send it theirs
  Blocks blocks;
};

// Whether what comes from other hosts is spread through the slots.
bool passes_on(const LaneState& state) {
  return state.settings.hierarchical_allgather && state.slots.count() > 1;
}

void choose_ways(const LaneState& state, GatherJob& job) {
  if (state.settings.hierarchical_allgather) {
    for (int host = 0; host < state.host_map.hosts(); ++host) {
      if (host != state.host_map.host(state.me()))
        job.to.push_back(state.host_map.proxy(host, state.me()));
    }
    job.from = state.host_map.wards(state.me());
    return;
  }
  for (int m = 0; m < state.size(); ++m) {
    if (!state.remote(m)) continue;
    job.to.push_back(m);
    job.from.push_back(m);
  }
}

// The transfers of a gather: to job.to, then from job.from, in this order.
void connect_gather(const LaneState& state, const GatherJob& job, StreamTransfers& transfers,
                    std::vector<const StreamTransfer*>& arriving) {
  const auto add = [&](int member, bool sending) {
    const Range share = job.shares[static_cast<size_t>(sending ? state.me() : member)];
    const auto locate = [share, sending](size_t item) {
      const size_t begin = share.begin + item * kPortion;
      return Place{nullptr, {begin, std::min(begin + kPortion, share.end)}, !sending};
    };
    const size_t items = divide_up(share.size(), kPortion);
    StreamTransfer& transfer = transfers.add(
        StreamTransfer(state.stream(member), member, sending, job.segments, items, locate));
    transfer.allow(items);
    if (!sending) arriving.push_back(&transfer);
  };
  for (int m : job.to) add(m, true);
  for (int m : job.from) add(m, false);
}

// Whether all bytes of the range that come from other hosts are there.
bool arrived(const GatherJob& job, const std::vector<const StreamTransfer*>& arriving,
             Range range) {
  for (size_t i = 0; i < arriving.size(); ++i) {
    const Range share = job.shares[static_cast<size_t>(job.from[i])];
    const bool touched = range.begin < share.end && share.begin < range.end;
    if (touched && share.begin + arriving[i]->done() * kPortion < std::min(range.end, share.end))
      return false;
  }
  return true;
}

// Copies the own rows to their place in the result, and to where the members of this host read.
void put_own(LaneState& state, Cursor& put, Range mine, uint32_t round) {
  const CopyScope scope(state.effort, state.slots.count() > 1 ? mine.size() : 0);
  put.visit(mine, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    const std::byte* from = segment.in + offset;
    if (state.slots.count() > 1)
      copy_for(state.cache_topology.far_from_most(), state.slots.send_buffer(round) + done, from,
               length);
    if (segment.in != segment.out) std::memcpy(segment.out + offset, from, length);
  });
}

Program run_allgather(LaneState& state, GatherJob job) {
  const Blocks& blocks = job.blocks;
  const uint32_t first = state.slots.begin(static_cast<uint32_t>(blocks.count()));
  const int n = state.slots.count();
  const int me = state.slots.me();
  Cursor put(job.segments);
  Cursor take(job.segments);
  StreamTransfers transfers(job.to.size() + job.from.size(), state.effort);
  std::vector<const StreamTransfer*> arriving;
  connect_gather(state, job, transfers, arriving);
  for (size_t step = 0; step <= blocks.count(); ++step) {
    if (step < blocks.count()) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await transfers.meanwhile(state.slots.writable(q, round));
      }
      const Range mine = blocks.range(step, me);
      if (state.several_hosts())
        co_await transfers.until([&] { return arrived(job, arriving, mine); });
      put_own(state, put, mine, round);
      if (blocks.chunk() >= kLeastNonTemporal) state.cache_topology.show(round);
      state.slots.fill(round);
      if (state.several_hosts()) transfers.progress();
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await transfers.meanwhile(state.slots.filled(q, round));
      const std::byte* from = state.slots.send_buffer_of(round, q);
      const CopyScope scope(state.effort, blocks.range(block, q).size());
      take.visit(blocks.range(block, q),
                 [&](const Segment& segment, size_t offset, size_t length, size_t done) {
                   std::memcpy(segment.out + offset, from + done, length);
                 });
    }
    state.cache_topology.look(round);
    // the last is stored by the next begin()
    if (step < blocks.count()) state.slots.publish(round);
  }
  co_await transfers.until_finished();
}

}  // namespace

Program allgather(LaneState& state, const Work& work) {
  GatherJob job;
  choose_ways(state, job);
  const size_t n = static_cast<size_t>(state.size());
  std::vector<std::vector<size_t>> offsets(n);  // per member and item: bytes of the members before
  for (size_t i = 0; i < work.items.size(); ++i) {
    size_t done = 0;
    for (size_t m = 0; m < n; ++m) {
      offsets[m].push_back(done);
      done += work.items[i].parts[m];
    }
  }
  size_t total = 0;
  job.shares.resize(n);
  const auto add_share = [&](int member) {
    const size_t m = static_cast<size_t>(member);
    job.shares[m].begin = total;
    for (size_t i = 0; i < work.items.size(); ++i) {
      const size_t bytes = work.items[i].parts[m];
      if (bytes == 0) continue;
      std::byte* out = static_cast<std::byte*>(work.items[i].out) + offsets[m][i];
      job.segments.push_back(
          {member == state.me() ? static_cast<const std::byte*>(work.items[i].in) : out, out,
           bytes});
      total += bytes;
    }
    job.shares[m].end = total;
  };
  for (int local : state.lane.local) {
    job.bounds.push_back(total);
    add_share(local);
    if (!passes_on(state)) continue;
    for (int ward : state.host_map.wards(local)) add_share(ward);
  }
  job.bounds.push_back(total);
  for (int m : job.from) {
    if (!passes_on(state)) add_share(m);
  }
  job.blocks =
      Blocks::by_owner(job.bounds, std::min(state.slots.send_buffer_bytes(), kLargestChunk));
  return run_allgather(state, std::move(job));
}

}  // namespace hvd::collectives
