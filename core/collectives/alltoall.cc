// SPDX-License-Identifier: Apache-2.0
// Alltoall: every member has a chunk of its send buffer for each other member and streams its data for
// that member through the chunk. Data for other hosts moves at the same time.
#include <cstring>

#include "collectives/lane_communicator.h"

namespace hvd::collectives {

namespace {

// Where the bytes for or from each member begin.
std::vector<size_t> starts(std::span<const size_t> bytes) {
  std::vector<size_t> at(bytes.size());
  for (size_t m = 1; m < at.size(); ++m) at[m] = at[m - 1] + bytes[m - 1];
  return at;
}

}  // namespace

Program LaneCommunicator::alltoall(const AlltoallArgs& args) { return run_alltoall(args); }

// Exchanges data with members on other hosts, without rounds, all at once.
void LaneCommunicator::exchange_remotely(const AlltoallArgs& args, std::span<const size_t> send_at,
                                         std::span<const size_t> receive_at, StreamTransfers& transfers) const {
  const std::byte* in = static_cast<const std::byte*>(args.in);
  std::byte* out = static_cast<std::byte*>(args.out);
  for (int m = 0; m < size(); ++m) {
    if (!remote(m)) continue;
    const size_t i = static_cast<size_t>(m);
    const Place from{const_cast<std::byte*>(in + send_at[i]), {0, args.send_bytes[i]}, false};
    const Place to{out + receive_at[i], {0, args.receive_bytes[i]}, true};
    transfers.add(StreamTransfer(stream(m), m, true, {}, 1, [from](size_t) { return from; })).allow(1);
    transfers.add(StreamTransfer(stream(m), m, false, {}, 1, [to](size_t) { return to; })).allow(1);
  }
}

// How many rounds there are depends on what others have for each other, so everyone tells its need with the first round.
Program LaneCommunicator::run_alltoall(AlltoallArgs args) {
  const int n = slots_.count();
  const int me = slots_.me();
  const size_t room = slots_.chunk();
  const std::byte* in = static_cast<const std::byte*>(args.in);
  std::byte* out = static_cast<std::byte*>(args.out);
  const std::vector<size_t> send_at = starts(args.send_bytes);
  const std::vector<size_t> receive_at = starts(args.receive_bytes);
  const size_t self = static_cast<size_t>(lane_.me);
  if (args.send_bytes[self] != 0) std::memmove(out + receive_at[self], in + send_at[self], args.send_bytes[self]);

  StreamTransfers transfers(several_hosts() ? 2 * static_cast<size_t>(size()) : 0);
  exchange_remotely(args, send_at, receive_at, transfers);
  transfers.progress();

  uint64_t rounds = 1;
  for (int q = 0; q < n; ++q) {
    if (q != me) rounds = std::max(rounds, uint64_t{divide_up(args.send_bytes[static_cast<size_t>(slots_.member(q))], room)});
  }
  const uint32_t first = slots_.begin(1);
  for (uint64_t block = 0; n > 1 && block < rounds; ++block) {
    const uint32_t round = first + static_cast<uint32_t>(block);
    const size_t offset = block * room;
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await transfers.meanwhile(slots_.writable(q, round));
    }
    for (int q = 0; q < n; ++q) {
      if (q == me) continue;
      const size_t m = static_cast<size_t>(slots_.member(q));
      if (args.send_bytes[m] <= offset) continue;
      copy_for(cache_topology_.far(q), slots_.send_buffer(round, q), in + send_at[m] + offset,
               std::min(room, args.send_bytes[m] - offset));
    }
    if (block == 0) std::memcpy(slots_.note(round), &rounds, sizeof(rounds));
    if (block > 0) cache_topology_.show(round);
    slots_.fill(round);
    uint64_t most = rounds;
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await transfers.meanwhile(slots_.filled(q, round));
      if (block == 0) {
        uint64_t theirs = 0;
        std::memcpy(&theirs, slots_.note_of(round, q), sizeof(theirs));
        most = std::max(most, theirs);
      }
      const size_t m = static_cast<size_t>(slots_.member(q));
      if (args.receive_bytes[m] <= offset) continue;
      std::memcpy(out + receive_at[m] + offset, slots_.receive_chunk(round, q), std::min(room, args.receive_bytes[m] - offset));
    }
    cache_topology_.look(round);
    slots_.publish(round);
    if (block == 0) {
      rounds = most;
      slots_.more(static_cast<uint32_t>(rounds - 1));
    }
  }
  if (n == 1) slots_.fill_and_publish(first);
  co_await transfers.until_finished();
}

}  // namespace hvd::collectives
