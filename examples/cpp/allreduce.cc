// SPDX-License-Identifier: Apache-2.0
// Sums an array over all ranks, then averages it in place: `horovodrun -np 2 ./allreduce`.
#include <hvd/hvd.hpp>

#include <cstdio>
#include <vector>

int main() {
  hvd::Context job;
  std::vector<float> mine(4, static_cast<float>(job.rank() + 1)), total(4);

  job.allreduce(mine, total, {.name = "total"}).wait();
  std::printf("rank %d of %d: sum [%.1f, %.1f, %.1f, %.1f]\n", job.rank(), job.size(), total[0],
              total[1], total[2], total[3]);

  job.allreduce(mine, {.name = "mean", .reduce_op = hvd::ReduceOp::kAverage}).wait();
  std::printf("rank %d of %d: mean [%.1f, %.1f, %.1f, %.1f]\n", job.rank(), job.size(), mine[0],
              mine[1], mine[2], mine[3]);

  const float expected = static_cast<float>(job.size() * (job.size() + 1)) / 2;
  return total[3] == expected && mine[3] == expected / static_cast<float>(job.size()) ? 0 : 1;
}
