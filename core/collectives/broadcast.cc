// SPDX-License-Identifier: Apache-2.0
// Broadcast: the root streams through its outbox, which the others on its host read. On every other host the first member
// receives from the root's stream into its outbox and takes the root's place.
#include <cstring>

#include "collectives/lane_communicator.h"

namespace hvd::collectives {

namespace {

// Small enough that copying in and copying out overlap early.
constexpr size_t kBroadcastChunk = size_t{64} << 10;

}  // namespace

Program LaneCommunicator::broadcast(const void* in, void* out, size_t bytes, int root_member) {
  if (bytes == 0) return nothing();
  return run_broadcast(static_cast<const std::byte*>(in), static_cast<std::byte*>(out), bytes, root_member);
}

Program LaneCommunicator::run_broadcast(const std::byte* in, std::byte* out, size_t bytes, int root) {
  const bool am_root = lane_.me == root;
  const int host = lane_.host_of[static_cast<size_t>(lane_.me)];
  const bool near_root = lane_.host_of[static_cast<size_t>(root)] == host;
  int source = 0;  // who fills its outbox on this host
  while (near_root && slots_.member(source) != root) ++source;
  const int n = slots_.count();
  const int me = slots_.me();
  const Blocks blocks = Blocks::interleaved(bytes, 1, std::min(slots_.outbox_bytes(), kBroadcastChunk));
  const uint32_t first = slots_.begin(static_cast<uint32_t>(blocks.count()));
  Exchange exchange(several_hosts() ? size() : 0);
  for (size_t block = 0; block < blocks.count(); ++block) {
    const Range range = blocks.range(block, 0);
    const uint32_t round = first + static_cast<uint32_t>(block);
    if (me != source) {
      co_await slots_.filled(source, round);
      std::memcpy(out + range.begin, slots_.outbox_of(round, source), range.size());
      slots_.fill_and_publish(round);
      continue;
    }
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await slots_.writable(q, round);
    }
    std::byte* outbox = slots_.outbox(round);
    if (am_root) {
      if (n > 1) std::memcpy(outbox, in + range.begin, range.size());
      slots_.fill_and_publish(round);
      exchange.clear();
      int host_done = host;  // one member per other host: hosts are counted by first member
      for (int m = 0, next = 0; m < size(); ++m) {
        const int host_of_m = lane_.host_of[static_cast<size_t>(m)];
        if (host_of_m < next) continue;
        next = host_of_m + 1;
        if (host_of_m != host_done) exchange.send(stream(m), in + range.begin, range.size());
      }
      if (several_hosts()) co_await exchange.done(first_remote());
      if (out != nullptr && out != in) std::memcpy(out + range.begin, in + range.begin, range.size());
    } else {
      exchange.clear();
      exchange.receive(stream(root), outbox, range.size());
      co_await exchange.done(root);
      slots_.fill_and_publish(round);
      std::memcpy(out + range.begin, outbox, range.size());
    }
  }
}

}  // namespace hvd::collectives
