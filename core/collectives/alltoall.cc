// SPDX-License-Identifier: Apache-2.0
// Alltoall: every member has a chunk of its send buffer for each other member and streams its data
// for that member through the chunk. Data for other hosts moves at the same time.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/ticks.h"
#include "collectives/algorithms.h"
#include "collectives/stream_transfer.h"

namespace hvd::collectives {

namespace {

// Where the bytes for or from each member begin.
std::vector<size_t> starts(std::span<const size_t> bytes) {
  std::vector<size_t> at(bytes.size());
  for (size_t m = 1; m < at.size(); ++m) at[m] = at[m - 1] + bytes[m - 1];
  return at;
}

// Exchanges data with members on other hosts, without rounds, all at once.
void exchange_remotely(const LaneState& state, const Work& work, std::span<const size_t> send_at,
                       std::span<const size_t> receive_at, StreamTransfers& transfers) {
  const std::byte* in = static_cast<const std::byte*>(work.items[0].in);
  std::byte* out = static_cast<std::byte*>(work.items[0].out);
  for (int m = 0; m < state.size(); ++m) {
    if (!state.remote(m)) continue;
    const size_t i = static_cast<size_t>(m);
    const Place from{const_cast<std::byte*>(in + send_at[i]), {0, work.send_bytes[i]}, false};
    const Place to{out + receive_at[i], {0, work.receive_bytes[i]}, true};
    transfers.add(StreamTransfer(state.stream(m), m, true, {}, 1, [from](size_t) { return from; }))
        .allow(1);
    transfers.add(StreamTransfer(state.stream(m), m, false, {}, 1, [to](size_t) { return to; }))
        .allow(1);
  }
}

}  // namespace

// How many rounds there are depends on what others have for each other, so everyone tells its need
// with the first round.
Program alltoall(LaneState& state, const Work& work) {
  const int n = state.slots.count();
  const int me = state.slots.me();
  const size_t room = state.slots.chunk();
  const std::byte* in = static_cast<const std::byte*>(work.items[0].in);
  std::byte* out = static_cast<std::byte*>(work.items[0].out);
  const std::vector<size_t> send_at = starts(work.send_bytes);
  const std::vector<size_t> receive_at = starts(work.receive_bytes);
  const size_t self = static_cast<size_t>(state.me());
  if (work.send_bytes[self] != 0)
    std::memmove(out + receive_at[self], in + send_at[self], work.send_bytes[self]);

  StreamTransfers transfers(state.several_hosts() ? 2 * static_cast<size_t>(state.size()) : 0,
                            state.effort);
  exchange_remotely(state, work, send_at, receive_at, transfers);
  transfers.progress();

  uint64_t rounds = 1;
  for (int q = 0; q < n; ++q) {
    if (q != me)
      rounds = std::max(
          rounds,
          uint64_t{divide_up(work.send_bytes[static_cast<size_t>(state.slots.member(q))], room)});
  }
  const uint32_t first = state.slots.begin(1);
  for (uint64_t block = 0; n > 1 && block < rounds; ++block) {
    const uint32_t round = first + static_cast<uint32_t>(block);
    const size_t offset = block * room;
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await transfers.meanwhile(state.slots.writable(q, round));
    }
    for (int q = 0; q < n; ++q) {
      if (q == me) continue;
      const size_t m = static_cast<size_t>(state.slots.member(q));
      if (work.send_bytes[m] <= offset) continue;
      const size_t bytes = std::min(room, work.send_bytes[m] - offset);
      const CopyScope scope(state.effort, bytes);
      copy_for(state.cache_topology.far(q), state.slots.send_buffer(round, q),
               in + send_at[m] + offset, bytes);
    }
    if (block == 0) std::memcpy(state.slots.note(round), &rounds, sizeof(rounds));
    if (block > 0) state.cache_topology.show(round);
    state.slots.fill(round);
    uint64_t most = rounds;
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await transfers.meanwhile(state.slots.filled(q, round));
      if (block == 0) {
        uint64_t theirs = 0;
        std::memcpy(&theirs, state.slots.note_of(round, q), sizeof(theirs));
        most = std::max(most, theirs);
      }
      const size_t m = static_cast<size_t>(state.slots.member(q));
      if (work.receive_bytes[m] <= offset) continue;
      const size_t bytes = std::min(room, work.receive_bytes[m] - offset);
      const CopyScope scope(state.effort, bytes);
      std::memcpy(out + receive_at[m] + offset, state.slots.receive_chunk(round, q), bytes);
    }
    state.cache_topology.look(round);
    state.slots.publish(round);
    if (block == 0) {
      rounds = most;
      state.slots.more(static_cast<uint32_t>(rounds - 1));
    }
  }
  if (n == 1) state.slots.fill_and_publish(first);
  co_await transfers.until_finished();
}

}  // namespace hvd::collectives
