// SPDX-License-Identifier: Apache-2.0
// Even and odd ranks reduce apart, at the same time: `horovodrun -np 4 ./process_sets`.
#include <hvd/hvd.hpp>

#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  hvd::Context job;
  if (job.size() < 2) {
    std::fprintf(stderr, "start this with at least 2 ranks: horovodrun -np 4 ./process_sets\n");
    return 1;
  }

  // Every rank creates every set, also those it is not in, in the same order.
  std::vector<std::int32_t> even_ranks, odd_ranks;
  for (int rank = 0; rank < job.size(); ++rank)
    (rank % 2 == 0 ? even_ranks : odd_ranks).push_back(rank);
  hvd::ProcessSet even = job.create_process_set(even_ranks),
                  odd = job.create_process_set(odd_ranks);
  const hvd::ProcessSet& mine = even.included() ? even : odd;

  std::vector<std::int64_t> total = {job.rank()};
  job.allreduce(total, {.name = "total", .set = &mine}).wait();
  const std::vector<std::int32_t> ranks = mine.ranks();
  std::printf("rank %d is %d of %d in [", job.rank(), mine.rank(), mine.size());
  for (const std::int32_t rank : ranks) std::printf("%s%d", rank == ranks[0] ? "" : ", ", rank);
  std::printf("]: sum of the ranks %d\n", static_cast<int>(total[0]));

  odd.destroy();
  even.destroy();
  return total[0] == std::accumulate(ranks.begin(), ranks.end(), 0) ? 0 : 1;
}
