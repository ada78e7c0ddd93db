// SPDX-License-Identifier: Apache-2.0
// Allgather: every member streams its input through its send buffer, which all others on its host read. To every other host it
// sends its input once, to its proxy there, which passes it on through its own send buffer after its own input; unless
// hierarchical_allgather is off: then it sends its input to everyone.
#include <cstring>

#include "collectives/lane_communicator.h"

namespace hvd::collectives {

namespace {

// Received bytes are passed on in portions of this size.
constexpr size_t kPortion = kLargestChunk;

}  // namespace

Program LaneCommunicator::allgather(std::span<const GatherPiece> pieces) {
  GatherJob job;
  choose_ways(job);
  const size_t n = static_cast<size_t>(size());
  std::vector<std::vector<size_t>> offsets(n);  // per member and piece: bytes of the members before
  for (size_t i = 0; i < pieces.size(); ++i) {
    size_t done = 0;
    for (size_t m = 0; m < n; ++m) {
      offsets[m].push_back(done);
      done += pieces[i].bytes_of[m];
    }
  }
  size_t total = 0;
  job.shares.resize(n);
  const auto add_share = [&](int member) {
    const size_t m = static_cast<size_t>(member);
    job.shares[m].begin = total;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const size_t bytes = pieces[i].bytes_of[m];
      if (bytes == 0) continue;
      std::byte* out = static_cast<std::byte*>(pieces[i].out) + offsets[m][i];
      job.segments.push_back({member == lane_.me ? static_cast<const std::byte*>(pieces[i].in) : out, out, bytes});
      total += bytes;
    }
    job.shares[m].end = total;
  };
  for (int local : lane_.local) {
    job.bounds.push_back(total);
    add_share(local);
    if (!passes_on()) continue;
    for (int ward : map_.wards(local)) add_share(ward);
  }
  job.bounds.push_back(total);
  for (int m : job.from) {
    if (!passes_on()) add_share(m);
  }
  job.blocks = Blocks::by_owner(job.bounds, std::min(slots_.send_buffer_bytes(), kLargestChunk));
  return run_allgather(std::move(job));
}

// Whether what comes from other hosts is spread through the slots.
bool LaneCommunicator::passes_on() const { return settings_.hierarchical_allgather && slots_.count() > 1; }

void LaneCommunicator::choose_ways(GatherJob& job) const {
  if (settings_.hierarchical_allgather) {
    for (int host = 0; host < map_.hosts(); ++host) {
      if (host != map_.host(lane_.me)) job.to.push_back(map_.proxy(host, lane_.me));
    }
    job.from = map_.wards(lane_.me);
    return;
  }
  for (int m = 0; m < size(); ++m) {
    if (!remote(m)) continue;
    job.to.push_back(m);
    job.from.push_back(m);
  }
}

// The transfers of a gather: to job.to, then from job.from, in this order.
void LaneCommunicator::connect_gather(const GatherJob& job, StreamTransfers& transfers,
                                      std::vector<const StreamTransfer*>& arriving) const {
  const auto add = [&](int member, bool sending) {
    const Range share = job.shares[static_cast<size_t>(sending ? lane_.me : member)];
    const auto locate = [share, sending](size_t item) {
      const size_t begin = share.begin + item * kPortion;
      return Place{nullptr, {begin, std::min(begin + kPortion, share.end)}, !sending};
    };
    const size_t items = divide_up(share.size(), kPortion);
    StreamTransfer& transfer = transfers.add(StreamTransfer(stream(member), member, sending, job.segments, items, locate));
    transfer.allow(items);
    if (!sending) arriving.push_back(&transfer);
  };
  for (int m : job.to) add(m, true);
  for (int m : job.from) add(m, false);
}

// Whether all bytes of the range that come from other hosts are there.
bool LaneCommunicator::arrived(const GatherJob& job, const std::vector<const StreamTransfer*>& arriving, Range range) {
  for (size_t i = 0; i < arriving.size(); ++i) {
    const Range share = job.shares[static_cast<size_t>(job.from[i])];
    const bool touched = range.begin < share.end && share.begin < range.end;
    if (touched && share.begin + arriving[i]->done() * kPortion < std::min(range.end, share.end)) return false;
  }
  return true;
}

Program LaneCommunicator::run_allgather(GatherJob job) {
  const Blocks& blocks = job.blocks;
  const uint32_t first = slots_.begin(static_cast<uint32_t>(blocks.count()));
  const int n = slots_.count();
  const int me = slots_.me();
  Cursor put(job.segments);
  Cursor take(job.segments);
  StreamTransfers transfers(job.to.size() + job.from.size());
  std::vector<const StreamTransfer*> arriving;
  connect_gather(job, transfers, arriving);
  for (size_t step = 0; step <= blocks.count(); ++step) {
    if (step < blocks.count()) {  // a block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await transfers.meanwhile(slots_.writable(q, round));
      }
      const Range mine = blocks.range(step, me);
      if (several_hosts()) co_await transfers.until([&] { return arrived(job, arriving, mine); });
      put.visit(mine, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
        const std::byte* from = segment.in + offset;
        if (n > 1) copy_for(cache_topology_.far_from_most(), slots_.send_buffer(round) + done, from, length);
        if (segment.in != segment.out) std::memcpy(segment.out + offset, from, length);
      });
      if (blocks.chunk() >= kLeastNonTemporal) cache_topology_.show(round);
      slots_.fill(round);
      if (several_hosts()) transfers.progress();
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await transfers.meanwhile(slots_.filled(q, round));
      const std::byte* from = slots_.send_buffer_of(round, q);
      take.visit(blocks.range(block, q), [&](const Segment& segment, size_t offset, size_t length, size_t done) {
        std::memcpy(segment.out + offset, from + done, length);
      });
    }
    cache_topology_.look(round);
    if (step < blocks.count()) slots_.publish(round);  // the last is stored by the next begin()
  }
  co_await transfers.until_finished();
}

}  // namespace hvd::collectives
