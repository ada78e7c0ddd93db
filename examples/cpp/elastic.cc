// SPDX-License-Identifier: Apache-2.0
// Trains while ranks die and are replaced: `horovodrun -np 3 --min-np 1 ./elastic`. The result is
// the same whatever happens to the ranks; `./elastic 500` makes 500 steps.
#include <unistd.h>

#include <hvd/hvd.hpp>

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

struct Model {
  std::array<double, 3> weights{};
  std::array<std::int64_t, 1> step{};

  void synchronize(hvd::Context& job) {
    job.broadcast(weights, 0, {.name = "weights"}).wait();
    job.broadcast(step, 0, {.name = "step"}).wait();
  }

  void train(hvd::Context& job) {
    std::array<double, 3> gradient{};
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<double>(i) * weights[i] - 1;
      gradient[i] *= static_cast<double>(1 + step[0] % 3);
    }
    job.allreduce(gradient, {.name = "gradient", .reduce_op = hvd::ReduceOp::kAverage}).wait();
    for (std::size_t i = 0; i < gradient.size(); ++i) weights[i] -= 0.05 * gradient[i];
    ++step[0];
  }
};

}  // namespace

int main(int count, char** arguments) {
  const std::int64_t steps = count > 1 ? std::atoll(arguments[1]) : 40;
  const char* worker = std::getenv("HOROVOD_WORKER");
  std::printf("worker %s pid %d\n", worker != nullptr ? worker : "-", ::getpid());
  std::fflush(stdout);

  hvd::Elastic<Model> elastic{Model()};
  elastic.run([steps](hvd::Elastic<Model>& here) {
    std::printf("begins at step %d\n", static_cast<int>(here.state.step[0]));
    std::fflush(stdout);
    while (here.state.step[0] < steps) {
      here.state.train(here.job());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      here.commit();
    }
  });

  std::printf("came to");
  for (const double weight : elastic.state.weights) std::printf(" %.9f", weight);
  std::printf(", bits");
  for (const double weight : elastic.state.weights)
    std::printf(" %016llx", static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(weight)));
  std::printf(", as rank %d of %d\n", elastic.job().rank(), elastic.job().size());
}
