// SPDX-License-Identifier: Apache-2.0
// instructions: a fixed number of allreduces, to be counted by callgrind (instructions.sh).
//
//   instructions --np N --turns T [--bytes B] [--tensors K]
//
// N ranks are threads of this process that meet at mem://, which callgrind needs to see them all.
// One turn submits K tensors of B bytes and waits for them.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "hvd_port.h"

namespace {

struct Plan {
  int size;
  int turns;
  size_t elements;
  size_t tensors;
};

void run_rank(int rank, const Plan& plan) {
  bench::HvdPort port("instructions", rank, plan.size, "mem://instructions");
  bench_tensor_set set{};
  set.name = "instructions";
  set.tensor_count = plan.tensors;
  std::vector<std::vector<float>> memory(plan.tensors, std::vector<float>(plan.elements));
  std::vector<float*> tensors;
  for (size_t i = 0; i < plan.tensors; i++) {
    set.elements[i] = plan.elements;
    tensors.push_back(memory[i].data());
  }
  for (int turn = 0; turn < plan.turns; turn++) port.allreduce_set(set, tensors.data());
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](const char* name, const char* fallback) {
    return std::atoi(bench_argument(argc, argv, name, fallback));
  };
  const Plan plan{number("--np", "1"), number("--turns", "100"),
                  static_cast<size_t>(number("--bytes", "8")) / sizeof(float),
                  static_cast<size_t>(number("--tensors", "1"))};
  if (plan.size < 1 || plan.turns < 0 || plan.tensors < 1 || plan.tensors > BENCH_MAX_TENSORS) {
    std::fprintf(stderr, "instructions: --np, --turns or --tensors is out of range\n");
    return 2;
  }
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < plan.size; rank++) ranks.emplace_back(run_rank, rank, plan);
  return 0;
}
