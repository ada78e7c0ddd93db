// SPDX-License-Identifier: Apache-2.0
// cache_topology: large allreduces between two cores with usual stores, with non-temporal ones, and
// as measured (core/adr/0015).
//
//   cache_topology [--cores 0,1] [--kilobytes 18456] [--turns 200]
//
// Two threads bound to those cores are the members of a process set; the three ways take turns.
// Before and after each allreduce the threads hand a cache line to and fro; an allreduce is counted
// as near or far by that, or left out if it differed. On a virtual machine one core may be near now
// and far a moment later; on others choose a pair.
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cases.h"
#include "collectives/algorithms.h"

namespace {

using hvd::collectives::NonTemporalStores;

constexpr std::array<NonTemporalStores, 3> kWays = {
    NonTemporalStores::kNever, NonTemporalStores::kAlways, NonTemporalStores::kMeasured};
constexpr std::array<const char*, 3> kNames = {"usual stores", "non-temporal stores",
                                               "as measured"};
constexpr double kNearNs = 220;  // for the way to and fro
constexpr double kFarNs = 280;
// what a training step touches between two allreduces
constexpr size_t kColdBytes = size_t{48} << 20;

class NoBell : public hvd::transport::Doorbell {
 public:
  void ring_sleepers() noexcept override {}
};

struct Pair {
  hvd::transport::Lane lane(int me) {
    hvd::transport::Lane lane;
    lane.me = lane.me_local = me;
    lane.host_of = {0, 0};
    lane.local = {0, 1};
    lane.ranks = {0, 1};
    lane.hosts = 1;
    lane.streams.resize(2);
    lane.bell = &bell;
    lane.memory = {static_cast<std::byte*>(memory.get()), bytes};
    return lane;
  }

  NoBell bell;
  size_t bytes = 2 * hvd::collectives::bytes_per_member(2, 1);
  std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(4096, bytes), &std::free};
};

struct Plan {
  std::array<int, 2> cores;
  size_t elements;
  int turns;
};

struct Shared {
  std::array<Pair, kWays.size()> pairs;
  std::barrier<> together{2};
  alignas(128) std::atomic<int> ball{0};
  std::array<double, 2> taken{};
  std::array<std::array<std::vector<double>, 2>, kWays.size()> times;  // in ms, per way: near, far
};

double to_and_fro(Shared& shared, int me) {
  constexpr int kTimes = 200;
  shared.together.arrive_and_wait();
  const hvd::Time start = hvd::now();
  for (int i = 0; i < kTimes; i++) {
    while (shared.ball.load(std::memory_order_acquire) != me) {
    }
    shared.ball.store(1 - me, std::memory_order_release);
  }
  while (shared.ball.load(std::memory_order_acquire) != 0) {
  }
  return static_cast<double>((hvd::now() - start).count()) / kTimes;
}

void check(const std::vector<float>& values) {
  const auto wrong =
      std::find_if(values.begin(), values.end(), [](float value) { return value != 3; });
  if (wrong == values.end()) return;
  std::fprintf(stderr, "cache_topology: element %td is %g, not 3\n", wrong - values.begin(),
               static_cast<double>(*wrong));
  std::exit(1);
}

void run_member(Shared& shared, const Plan& plan, int me) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(static_cast<size_t>(plan.cores[static_cast<size_t>(me)]), &core);
  if (sched_setaffinity(0, sizeof(core), &core) != 0)
    std::perror("cache_topology: sched_setaffinity");
  std::vector<float> values(plan.elements);
  std::vector<char> other(kColdBytes);
  std::vector<hvd::transport::Lane> lanes;
  for (Pair& pair : shared.pairs) lanes.push_back(pair.lane(me));
  std::vector<std::unique_ptr<hvd::collectives::LaneState>> ways;
  for (size_t w = 0; w < kWays.size(); w++) {
    const hvd::collectives::Settings settings{.non_temporal_stores = kWays[w]};
    ways.push_back(std::make_unique<hvd::collectives::LaneState>(lanes[w], settings));
  }
  for (int turn = 0; turn < plan.turns; turn++) {
    for (size_t w = 0; w < kWays.size(); w++) {
      std::fill(values.begin(), values.end(), static_cast<float>(me + 1));
      for (size_t at = 0; at < other.size(); at += 64) other[at]++;
      const double before = to_and_fro(shared, me);
      shared.together.arrive_and_wait();
      const hvd::collectives::Item item{
          .in = values.data(), .out = values.data(), .count = values.size()};
      const hvd::collectives::Work work{.kind = hvd::collectives::Kind::kAllreduce,
                                        .dtype = hvd::DType::kFloat32,
                                        .items = {&item, 1}};
      const hvd::Time start = hvd::now();
      hvd::collectives::Program program = hvd::collectives::start(*ways[w], work);
      while (!program.done()) program.step();
      shared.taken[static_cast<size_t>(me)] =
          static_cast<double>((hvd::now() - start).count()) / 1e6;
      const double after = to_and_fro(shared, me);
      check(values);
      if (me == 0 && std::max(before, after) < kNearNs)
        shared.times[w][0].push_back(std::max(shared.taken[0], shared.taken[1]));
      if (me == 0 && std::min(before, after) > kFarNs)
        shared.times[w][1].push_back(std::max(shared.taken[0], shared.taken[1]));
      shared.together.arrive_and_wait();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan{};
  if (std::sscanf(bench_argument(argc, argv, "--cores", "0,1"), "%d,%d", &plan.cores[0],
                  &plan.cores[1]) != 2) {
    std::fprintf(stderr, "cache_topology: --cores: two numbers, as 0,1\n");
    return 2;
  }
  plan.elements =
      static_cast<size_t>(std::atoi(bench_argument(argc, argv, "--kilobytes", "18456"))) * 1024 /
      sizeof(float);
  plan.turns = std::atoi(bench_argument(argc, argv, "--turns", "200"));
  Shared shared;
  for (Pair& pair : shared.pairs) std::memset(pair.memory.get(), 0, pair.bytes);
  {
    std::jthread other(run_member, std::ref(shared), std::cref(plan), 1);
    run_member(shared, plan, 0);
  }
  std::printf("allreduce of %zu KB, ms: median (quartiles), number\n",
              plan.elements * sizeof(float) / 1024);
  for (const size_t far : {0, 1}) {
    for (size_t w = 0; w < kWays.size(); w++) {
      std::vector<double>& times = shared.times[w][far];
      std::sort(times.begin(), times.end());
      const auto at = [&times](size_t quarter) {
        return times.empty() ? 0 : times[quarter * (times.size() - 1) / 4];
      };
      std::printf("%-5s%-20s%7.2f (%.2f to %.2f) %5zu\n", far != 0 ? "far" : "near", kNames[w],
                  at(2), at(1), at(3), times.size());
    }
  }
  return 0;
}
