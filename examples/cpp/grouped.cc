// SPDX-License-Identifier: Apache-2.0
// Reduces several arrays as one operation, and gathers arrays of different lengths: `horovodrun -np
// 2 ./grouped`.
#include <hvd/hvd.hpp>

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

int main() {
  hvd::Context job;
  const int rank = job.rank();
  std::vector<float> a(3, static_cast<float>(rank)), b(6, static_cast<float>(rank)),
      c(15, static_cast<float>(rank));
  const std::vector<hvd::AnyTensor> gradients = {hvd::Tensor(std::span(a), {1, 3}),
                                                 hvd::Tensor(std::span(b), {2, 3}),
                                                 hvd::Tensor(std::span(c), {5, 3})};

  // The group is reduced together or not at all, whatever the order in which the ranks submit other
  // operations.
  hvd::Pending means =
      job.grouped_allreduce(gradients, {.name = "gradients", .reduce_op = hvd::ReduceOp::kAverage});
  means.wait();
  std::printf("rank %d: mean of the ranks %.1f, shapes [", rank, a[0]);
  for (std::size_t i = 0; i < means.result_count(); ++i) {
    const auto shape = means.result<float>(i).shape;
    std::printf("%s(%d, %d)", i > 0 ? ", " : "", static_cast<int>(shape[0]),
                static_cast<int>(shape[1]));
  }
  std::printf("]\n");

  // Rank r brings r + 1 rows.
  const std::vector<std::int64_t> mine(static_cast<std::size_t>(2 * (rank + 1)), rank);
  hvd::Pending rows = job.allgather(hvd::Tensor(std::span(mine), {rank + 1, 2}), {.name = "rows"});
  rows.wait();
  const hvd::Result<std::int64_t> all = rows.result<std::int64_t>();
  std::printf("rank %d: gathered %d rows, first column [", rank, static_cast<int>(all.shape[0]));
  for (std::size_t i = 0; i < all.data.size(); i += 2)
    std::printf("%s%d", i > 0 ? ", " : "", static_cast<int>(all.data[i]));
  std::printf("]\n");

  // Asynchronous: start, do something else, then wait.
  std::vector<double> numbers = {0.0, 1.0, 2.0};
  hvd::Pending later = job.allreduce(numbers, {.name = "later"});
  later.wait();
  std::printf("rank %d: later [%.1f, %.1f, %.1f]\n", rank, numbers[0], numbers[1], numbers[2]);
  return all.shape[0] == job.size() * (job.size() + 1) / 2 && numbers[2] == 2.0 * job.size() ? 0
                                                                                             : 1;
}
