// SPDX-License-Identifier: Apache-2.0
// Broadcast: on every host one member, the root or its proxy, has the data first and streams it
// through its send buffer, which the others there read. Between hosts these pass it on along a tree
// if it is small, along a chain if it is large: then every host sends everything once at most, and
// all of them at the same time.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/ticks.h"
#include "collectives/algorithms.h"
#include "collectives/stream_transfer.h"
#include "collectives/virtual_vector.h"

namespace hvd::collectives {

namespace {

// Small enough that copying in and copying out overlap early.
constexpr size_t kBroadcastChunk = size_t{64} << 10;

// With less, the many steps of a chain cost more than sending it several times.
constexpr size_t kChainBytes = size_t{256} << 10;

// Adds the transfer from the host before this one, which is returned, if there is one, and those to
// the next.
const StreamTransfer* connect_broadcast(const LaneState& state, StreamTransfers& transfers,
                                        const Segment& segment, const Blocks& blocks, int root) {
  const int hosts = state.host_map.hosts();
  const int from_root =
      (state.host_map.host(state.me()) - state.host_map.host(root) + hosts) % hosts;
  const bool chain = segment.bytes > kChainBytes;
  const auto source_at = [&](int distance) {
    return state.host_map.proxy((state.host_map.host(root) + distance) % hosts, root);
  };
  const auto inputs = [&blocks](size_t item) {
    return Place{nullptr, blocks.range(item, 0), false};
  };
  const auto outputs = [&blocks](size_t item) {
    return Place{nullptr, blocks.range(item, 0), true};
  };
  StreamTransfer* parent = nullptr;
  if (from_root != 0) {
    const int member = source_at(broadcast_parent(from_root, chain));
    parent = &transfers.add(StreamTransfer(state.stream(member), member, false, {&segment, 1},
                                           blocks.count(), outputs));
    parent->allow(blocks.count());
  }
  std::vector<StreamTransfer*> children;
  for (int child : broadcast_children(from_root, hosts, chain)) {
    const int member = source_at(child);
    children.push_back(&transfers.add(
        StreamTransfer(state.stream(member), member, true, {&segment, 1}, blocks.count(), inputs)));
    if (parent == nullptr) children.back()->allow(blocks.count());
  }
  if (parent != nullptr) {
    transfers.on_items([parent, children] {
      for (StreamTransfer* child : children) child->allow(parent->done());
    });
  }
  return parent;
}

}  // namespace

Program broadcast(LaneState& state, const Work& work) {
  const std::byte* in = static_cast<const std::byte*>(work.items[0].in);
  std::byte* out = static_cast<std::byte*>(work.items[0].out);
  const size_t bytes = work.items[0].count;
  const int root = work.root_member;
  if (bytes == 0) co_return;
  const int n = state.slots.count();
  const int me = state.slots.me();
  // the first on this host to have the data
  const int source = state.host_map.proxy(state.host_map.host(state.me()), root);
  const Blocks blocks =
      Blocks::interleaved(bytes, 1, std::min(state.slots.send_buffer_bytes(), kBroadcastChunk));
  const uint32_t first = state.slots.begin(static_cast<uint32_t>(blocks.count()));
  if (state.me() != source) {
    const int q = state.host_map.place(source);
    for (size_t block = 0; block < blocks.count(); ++block) {
      const Range range = blocks.range(block, 0);
      const uint32_t round = first + static_cast<uint32_t>(block);
      co_await state.slots.filled(q, round);
      {
        const CopyScope scope(state.effort, range.size());
        std::memcpy(out + range.begin, state.slots.send_buffer_of(round, q), range.size());
      }
      state.slots.fill_and_publish(round);
    }
    co_return;
  }
  const bool am_root = state.me() == root;
  const std::byte* data = am_root ? in : out;
  const Segment segment{data, out, bytes};
  StreamTransfers transfers(state.several_hosts() ? static_cast<size_t>(state.host_map.hosts()) : 0,
                            state.effort);
  const StreamTransfer* parent = connect_broadcast(state, transfers, segment, blocks, root);
  for (size_t block = 0; block < blocks.count(); ++block) {
    const Range range = blocks.range(block, 0);
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await transfers.meanwhile(state.slots.writable(q, round));
    }
    if (parent != nullptr)
      co_await transfers.until([parent, block] { return parent->done() > block; });
    if (n > 1) {
      const CopyScope scope(state.effort, range.size());
      std::memcpy(state.slots.send_buffer(round), data + range.begin, range.size());
    }
    state.slots.fill_and_publish(round);
    transfers.progress();
    if (am_root && out != nullptr && out != in) {
      const TickScope scope(state.effort.copied);
      std::memcpy(out + range.begin, in + range.begin, range.size());
    }
  }
  co_await transfers.until_finished();
}

}  // namespace hvd::collectives
