// SPDX-License-Identifier: Apache-2.0
// Hierarchical allreduce over several hosts. Of each block, an owner on every host reduces the contributions of its host
// through the slots, exchanges the sum with the owners of the same chunk on the other hosts, and publishes the total. Every
// byte crosses the network once per pair of hosts. There are as many owners as the smallest host has members; the hosts'
// sums are combined in host order, so all members end up with the same bytes.
#include "collectives/lane_communicator.h"
#include "kernels/reduce.h"

namespace hvd::collectives {

// Combines the first n of chunks_ into `result`.
void LaneCommunicator::combine_flat(const ReduceJob& job, size_t n, size_t bytes, std::byte* result, double postscale) {
  std::copy_n(chunks_.begin(), n, sources_.begin());
  kernels::reduce({.dtype = job.dtype,
                   .op = job.op,
                   .dst = result,
                   .dst2 = nullptr,
                   .srcs = sources_.data(),
                   .nsrc = n,
                   .count = bytes / dtype_size(job.dtype),
                   .postscale = postscale,
                   .stream = false});
}

Program LaneCommunicator::reduce_by_hosts(ReduceJob job) {
  const std::vector<std::vector<int>> members = members_by_host();
  size_t owners = members[0].size();
  for (const std::vector<int>& on_host : members) owners = std::min(owners, on_host.size());
  const size_t my_host = static_cast<size_t>(lane_.host_of[static_cast<size_t>(lane_.me)]);
  const int n = slots_.count();
  const int me = slots_.me();
  const int owner_count = static_cast<int>(owners);
  const Blocks blocks = Blocks::interleaved(job.total, owner_count, slots_.chunk());
  const uint32_t first = slots_.begin(static_cast<uint32_t>(blocks.count()));
  received_.resize(slots_.chunk() * members.size());
  Cursor put(job.parts);
  Cursor own(job.parts);
  Cursor take(job.parts);
  Exchange exchange(size());
  for (size_t step = 0; step <= blocks.count(); ++step) {
    if (step < blocks.count()) {  // one block ahead
      const uint32_t round = first + static_cast<uint32_t>(step);
      for (int q = 0; q < n; ++q) {
        if (q != me) co_await slots_.writable(q, round);
      }
      for (int q = 0; q < owner_count; ++q) {
        if (q != me) gather(job, put, blocks.range(step, q), slots_.outbox(round, q));
      }
      slots_.fill(round);
    }
    if (step == 0) continue;
    const size_t block = step - 1;
    const uint32_t round = first + static_cast<uint32_t>(block);
    std::byte* result = slots_.result(round);
    for (int q = 0; q < n; ++q) {
      if (q != me) co_await slots_.filled(q, round);
      chunks_[static_cast<size_t>(q)] = q != me ? slots_.inbox(round, q) : result;
    }
    if (me < owner_count) {
      const Range mine = blocks.range(block, me);
      gather(job, own, mine, result);
      combine_flat(job, static_cast<size_t>(n), mine.size(), result, 1.0);
      exchange.clear();
      for (size_t h = 0; h < members.size(); ++h) {
        chunks_[h] = h == my_host ? result : received_.data() + h * slots_.chunk();
        if (h == my_host) continue;
        const int peer = members[h][static_cast<size_t>(me)];
        exchange.send(stream(peer), result, mine.size());
        exchange.receive(stream(peer), received_.data() + h * slots_.chunk(), mine.size());
      }
      co_await exchange.done(members[my_host == 0 ? 1 : 0][static_cast<size_t>(me)]);
      combine_flat(job, members.size(), mine.size(), result, job.postscale);
      scatter(own, mine, result);
    }
    slots_.publish(round);
    for (int k = 1; k < n; ++k) {
      const int q = (me + k) % n;
      co_await slots_.published(q, round);
      if (q < owner_count) scatter(take, blocks.range(block, q), slots_.result_of(round, q));
    }
  }
}

std::vector<std::vector<int>> LaneCommunicator::members_by_host() const {
  std::vector<std::vector<int>> members(static_cast<size_t>(lane_.hosts));
  for (int m = 0; m < size(); ++m) members[static_cast<size_t>(lane_.host_of[static_cast<size_t>(m)])].push_back(m);
  return members;
}

}  // namespace hvd::collectives
