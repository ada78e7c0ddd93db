// SPDX-License-Identifier: Apache-2.0
// Adasum in two passes over the data instead of one pass per level of its tree. Every vector in the
// tree is a weighted sum of the inputs, so the inner products of the inputs determine all weights:
// the first pass computes the products, per tensor, the second the sum with the weights. Every
// member computes the weights from the same numbers.
#include <utility>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/reduce.h"

namespace hvd::collectives {

Program adasum(LaneState& state, ReduceJob job) {
  const size_t n = static_cast<size_t>(state.size());
  const size_t products = job.segments.size() * n * n;
  bool contributes = false;
  for (const Segment& segment : job.segments) contributes |= segment.in != nullptr;
  job.op = ReduceOp::kSum;
  job.blocks = Blocks::interleaved(job.total, state.size(), state.slots.chunk());

  std::vector<double> numbers(products + n);  // and who takes part
  numbers[products + static_cast<size_t>(state.me())] = contributes ? 1.0 : 0.0;
  ReduceJob first = job;
  first.collect = false;
  first.combine = Combine::kInnerProduct;
  first.gram = numbers.data();
  Program first_pass = reduce_in_blocks(state, std::move(first));
  co_await over(first_pass);

  const Item item{.in = numbers.data(), .out = numbers.data(), .count = numbers.size()};
  const Work sums{.kind = Kind::kAllreduce,
                  .dtype = DType::kFloat64,
                  .op = ReduceOp::kSum,
                  .items = {&item, 1}};
  Program add_up = allreduce(state, sums);
  co_await over(add_up);

  std::vector<bool> active(n);
  for (size_t m = 0; m < n; ++m) active[m] = numbers[products + m] != 0.0;
  std::vector<double> weights(job.segments.size() * n);
  for (size_t i = 0; i < job.segments.size(); ++i)
    adasum_weights(numbers.data() + i * n * n, active, weights.data() + i * n);
  job.combine = Combine::kWeightedSum;
  job.weights = weights.data();
  Program second_pass = reduce_in_blocks(state, std::move(job));
  co_await over(second_pass);
}

}  // namespace hvd::collectives
