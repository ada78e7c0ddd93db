// SPDX-License-Identifier: Apache-2.0
// Allgather: every member streams its input through its outbox, which all others read; between hosts, everyone sends its
// input to everyone.
#include <cstring>

#include "collectives/lane_communicator.h"

namespace hvd::collectives {

Program LaneCommunicator::allgather(std::span<const GatherPiece> pieces) {
  GatherJob job;
  const size_t n = static_cast<size_t>(size());
  std::vector<size_t> done(pieces.size());  // per piece: bytes of the members before
  size_t total = 0;
  for (size_t m = 0; m < n; ++m) {
    job.bounds.push_back(total);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const size_t bytes = pieces[i].bytes_of[m];
      if (bytes == 0) continue;
      const bool own = static_cast<int>(m) == lane_.me;
      job.parts.push_back({own ? static_cast<const std::byte*>(pieces[i].in) : nullptr,
                           static_cast<std::byte*>(pieces[i].out) + done[i], bytes});
      done[i] += bytes;
      total += bytes;
    }
  }
  job.bounds.push_back(total);
  job.blocks = Blocks::by_owner(job.bounds, std::min(slots_.outbox_bytes(), kLargestChunk));
  return run_allgather(std::move(job));
}

Program LaneCommunicator::run_allgather(GatherJob job) {
  const Blocks& blocks = job.blocks;
  const uint32_t first = slots_.begin(static_cast<uint32_t>(blocks.count()));
  const int n = slots_.count();
  const int me = slots_.me();
  Cursor put(job.parts);
  Cursor take(job.parts);
  for (size_t step = 0; step <= blocks.count(); ++step) {
    if (step < blocks.count()) {  // one block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await slots_.writable(q, round);
      }
      put.visit(blocks.range(step, lane_.me), [&](const Part& part, size_t offset, size_t length, size_t done) {
        const std::byte* from = part.in + offset;
        if (n > 1) std::memcpy(slots_.outbox(round) + done, from, length);
        if (part.in != part.out) std::memcpy(part.out + offset, from, length);
      });
      slots_.fill(round);
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await slots_.filled(q, round);
      const std::byte* from = slots_.outbox_of(round, q);
      take.visit(blocks.range(block, slots_.member(q)), [&](const Part& part, size_t offset, size_t length, size_t done) {
        std::memcpy(part.out + offset, from + done, length);
      });
    }
    if (step < blocks.count()) slots_.publish(round);  // the last is stored by the next begin()
  }
  if (!several_hosts()) co_return;
  const auto range = [&](int m) { return Range{job.bounds[static_cast<size_t>(m)], job.bounds[static_cast<size_t>(m) + 1]}; };
  Exchange exchange(size());
  for (int m = 0; m < size(); ++m) {
    if (!remote(m)) continue;
    exchange.send(stream(m), job.parts, range(lane_.me));
    exchange.receive(stream(m), job.parts, range(m));
  }
  co_await exchange.done(first_remote());
}

}  // namespace hvd::collectives
