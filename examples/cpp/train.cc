// SPDX-License-Identifier: Apache-2.0
// Trains a logistic regression, alone or with several ranks, to the same weights: `horovodrun -np 2
// ./train`.
//
// Every rank has each size-th sample. In each step the ranks sum up their gradients, so that all go
// the same way; at the end rank 0 trains on all samples alone and compares.
#include <hvd/hvd.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace {

constexpr int kSamples = 600;
constexpr int kSteps = 200;
constexpr std::size_t kFeatures = 8;
constexpr double kRate = 2.0;

using Inputs = std::array<double, kFeatures>;
using Weights = std::array<double, kFeatures + 1>;
// The gradient, then loss and correct answers, each summed over some samples.
using Sums = std::array<double, kFeatures + 3>;

// Between -1 and 1; `above` is the label: whether a plane that the training must find has the
// sample above it.
Inputs sample(int i, bool* above) {
  Inputs inputs{};
  double height = 0;
  for (int j = 0; j < static_cast<int>(kFeatures); ++j) {
    const double value = (i * i * 7 + i * (j + 1) * 31 + j * 57) % 199 / 99.0 - 1;
    inputs[static_cast<std::size_t>(j)] = value;
    height += value * (j - 2.5);
  }
  *above = height > 0.5;
  return inputs;
}

Sums step(const Weights& weights, int first, int stride) {
  Sums sums{};
  for (int i = first; i < kSamples; i += stride) {
    bool above = false;
    const Inputs inputs = sample(i, &above);
    double score = weights[kFeatures];
    for (std::size_t j = 0; j < kFeatures; ++j) score += inputs[j] * weights[j];
    const double off = 1 / (1 + std::exp(-score)) - above;
    for (std::size_t j = 0; j < kFeatures; ++j) sums[j] += off * inputs[j];
    sums[kFeatures] += off;
    sums[kFeatures + 1] +=
        std::log1p(std::exp(-std::abs(score))) + std::max(score, 0.0) - above * score;
    sums[kFeatures + 2] += (score > 0) == above;
  }
  return sums;
}

// The sums of the last step; `together` adds up those of all ranks.
template <class Together>
Sums train(Weights& weights, int first, int stride, Together&& together) {
  Sums sums{};
  for (int i = 0; i < kSteps; ++i) {
    sums = step(weights, first, stride);
    together(sums);
    for (std::size_t j = 0; j < weights.size(); ++j) weights[j] -= kRate * sums[j] / kSamples;
  }
  return sums;
}

}  // namespace

int main() {
  hvd::Context job;
  // The ranks begin differently; then all have what rank 0 has.
  Weights weights;
  weights.fill(0.01 * (job.rank() + 1));
  job.broadcast(weights, 0, {.name = "start"}).wait();
  Weights alone_weights = weights;

  const Sums sums = train(weights, job.rank(), job.size(),
                          [&job](Sums& mine) { job.allreduce(mine, {.name = "step"}).wait(); });
  const double loss = sums[kFeatures + 1] / kSamples, accuracy = sums[kFeatures + 2] / kSamples;
  bool good = accuracy > 0.95;
  if (job.rank() == 0) {
    std::printf("%d rank%s: loss %.6f, accuracy %.1f%%\n", job.size(), job.size() > 1 ? "s" : "",
                loss, 100 * accuracy);
    const double alone = train(alone_weights, 0, 1, [](Sums&) {})[kFeatures + 1] / kSamples;
    std::printf("alone: loss %.6f\n", alone);
    good = good && std::abs(loss - alone) < 1e-9;
    for (std::size_t j = 0; j < weights.size(); ++j)
      good = good && std::abs(weights[j] - alone_weights[j]) < 1e-9;
  }
  return good ? 0 : 1;
}
