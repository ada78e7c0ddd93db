// SPDX-License-Identifier: Apache-2.0
// Broadcast: on every host one member, the root or its proxy, has the data first and streams it through its send buffer, which
// the others there read. Between hosts these pass it on along a tree if it is small, along a chain if it is large: then
// every host sends everything once at most, and all of them at the same time.
#include <cstring>

#include "collectives/lane_communicator.h"

namespace hvd::collectives {

namespace {

// Small enough that copying in and copying out overlap early.
constexpr size_t kBroadcastChunk = size_t{64} << 10;

// With less, the many steps of a chain cost more than sending it several times.
constexpr size_t kChainBytes = size_t{256} << 10;

}  // namespace

Program LaneCommunicator::broadcast(const void* in, void* out, size_t bytes, int root_member) {
  if (bytes == 0) return nothing();
  return run_broadcast(static_cast<const std::byte*>(in), static_cast<std::byte*>(out), bytes, root_member);
}

Program LaneCommunicator::run_broadcast(const std::byte* in, std::byte* out, size_t bytes, int root) {
  const int n = slots_.count();
  const int me = slots_.me();
  const int source = map_.proxy(map_.host(lane_.me), root);  // the first on this host to have the data
  const Blocks blocks = Blocks::interleaved(bytes, 1, std::min(slots_.send_buffer_bytes(), kBroadcastChunk));
  const uint32_t first = slots_.begin(static_cast<uint32_t>(blocks.count()));
  if (lane_.me != source) {
    const int q = map_.place(source);
    for (size_t block = 0; block < blocks.count(); ++block) {
      const Range range = blocks.range(block, 0);
      const uint32_t round = first + static_cast<uint32_t>(block);
      co_await slots_.filled(q, round);
      std::memcpy(out + range.begin, slots_.send_buffer_of(round, q), range.size());
      slots_.fill_and_publish(round);
    }
    co_return;
  }
  const bool am_root = lane_.me == root;
  const std::byte* data = am_root ? in : out;
  const Segment segment{data, out, bytes};
  StreamTransfers transfers(several_hosts() ? static_cast<size_t>(map_.hosts()) : 0);
  const StreamTransfer* parent = connect_broadcast(transfers, segment, blocks, root);
  for (size_t block = 0; block < blocks.count(); ++block) {
    const Range range = blocks.range(block, 0);
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await transfers.meanwhile(slots_.writable(q, round));
    }
    if (parent != nullptr) co_await transfers.until([parent, block] { return parent->done() > block; });
    if (n > 1) std::memcpy(slots_.send_buffer(round), data + range.begin, range.size());
    slots_.fill_and_publish(round);
    transfers.progress();
    if (am_root && out != nullptr && out != in) std::memcpy(out + range.begin, in + range.begin, range.size());
  }
  co_await transfers.until_finished();
}

// Adds the transfer from the host before this one, which is returned, if there is one, and those to the next.
const StreamTransfer* LaneCommunicator::connect_broadcast(StreamTransfers& transfers, const Segment& segment,
                                                          const Blocks& blocks, int root) const {
  const int hosts = map_.hosts();
  const int from_root = (map_.host(lane_.me) - map_.host(root) + hosts) % hosts;
  const bool chain = segment.bytes > kChainBytes;
  const auto source_at = [&](int distance) { return map_.proxy((map_.host(root) + distance) % hosts, root); };
  const auto inputs = [&blocks](size_t item) { return Place{nullptr, blocks.range(item, 0), false}; };
  const auto outputs = [&blocks](size_t item) { return Place{nullptr, blocks.range(item, 0), true}; };
  StreamTransfer* parent = nullptr;
  if (from_root != 0) {
    const int member = source_at(broadcast_parent(from_root, chain));
    parent = &transfers.add(StreamTransfer(stream(member), member, false, {&segment, 1}, blocks.count(), outputs));
    parent->allow(blocks.count());
  }
  std::vector<StreamTransfer*> children;
  for (int child : broadcast_children(from_root, hosts, chain)) {
    const int member = source_at(child);
    children.push_back(&transfers.add(StreamTransfer(stream(member), member, true, {&segment, 1}, blocks.count(), inputs)));
    if (parent == nullptr) children.back()->allow(blocks.count());
  }
  if (parent != nullptr) {
    transfers.on_items([parent, children] {
      for (StreamTransfer* child : children) child->allow(parent->done());
    });
  }
  return parent;
}

}  // namespace hvd::collectives
