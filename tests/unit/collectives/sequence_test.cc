// SPDX-License-Identifier: Apache-2.0
// Random sequences of different collectives, with members that are late at random: what one
// operation leaves behind must not disturb the next.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "unit/collectives/cases.h"
#include "unit/collectives/sanitizers.h"
#include "unit/collectives/world.h"

namespace hvd::test {
namespace {

// Steps with random pauses before and within the program.
void finish_late(collectives::Program program, std::minstd_rand& random) {
  if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  while (!program.done()) {
    if (!program.step()) std::this_thread::yield();
    if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
  }
}

void run_sequence(World& world, uint64_t first_seed, int operations, size_t largest,
                  bool by_hosts) {
  world.run([&](int member) {
    std::minstd_rand random(static_cast<uint32_t>(member) + 1);
    const Place place{member, world.host_of(), by_hosts};
    const Runner runner = [&](collectives::Program program) {
      finish_late(std::move(program), random);
    };
    for (int i = 0; i < operations; ++i) {
      const Case test = random_case(first_seed + static_cast<uint64_t>(i), world.size(), largest);
      const std::string wrong = run_case(test, place, world.state(member), runner);
      EXPECT_EQ(wrong, "") << "member " << member << " of " << world.size();
    }
  });
}

TEST(Sequence, TwoMembersThousandsOfOperations) {
  World world = World::on_one_host(2);
  run_sequence(world, 1, 2500 / kSlowness, 1200000, false);
}

TEST(Sequence, ThreeAndFourMembers) {
  for (int size : {3, 4}) {
    World world = World::on_one_host(size);
    run_sequence(world, 100000, 500 / kSlowness, 1200000, false);
  }
}

TEST(Sequence, EverySizeToSixteen) {
  for (int size = 1; size <= 16; ++size) {
    World world = World::on_one_host(size);
    run_sequence(world, 200000 + static_cast<uint64_t>(size) * 1000,
                 (size > 8 ? 30 : 80) / kSlowness + 2, 300000, false);
  }
}

TEST(Sequence, AroundTheCaches) {
  const collectives::NonTemporalStores always = collectives::NonTemporalStores::kAlways;
  for (const std::vector<int>& host_of :
       std::vector<std::vector<int>>{{0, 0}, {0, 0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 0, 0, 1}}) {
    for (const bool by_hosts : {true, false}) {
      World world(host_of, {.hierarchical_allreduce = by_hosts,
                            .hierarchical_allgather = by_hosts,
                            .non_temporal_stores = always});
      run_sequence(world, 400000, 100 / kSlowness + 2, 1200000, by_hosts && world.hosts() > 1);
    }
  }
}

// Host of each member, and whether members of a host act together.
struct Shape {
  std::vector<int> host_of;
  bool hierarchical;
};

class SequenceOnHosts : public testing::TestWithParam<Shape> {};

TEST_P(SequenceOnHosts, ManyOperations) {
  const bool hierarchical = GetParam().hierarchical;
  World world(GetParam().host_of,
              {.hierarchical_allreduce = hierarchical, .hierarchical_allgather = hierarchical});
  run_sequence(world, 300000, 300 / world.size() / kSlowness + 2, 1200000, hierarchical);
}

std::vector<Shape> shapes() {
  const std::vector<std::vector<int>> host_of{
      {0, 1},  // alone on two to five hosts
      {0, 1, 2},
      {0, 1, 2, 3},
      {0, 1, 2, 3, 4},
      {0, 0, 1, 1},
      {0, 1, 0, 1},  // two on each
      {0, 0, 1, 1, 2, 2},
      {0, 1, 2, 3, 3, 2, 1, 0},
      {0, 0, 0, 1, 1, 1},
      {0, 1, 2, 0, 1, 2, 0, 1, 2},  // three on each
      {0, 0, 0, 1},
      {0, 1, 1, 1},
      {0, 1, 1, 0, 2},  // uneven
      {0, 0, 0, 1, 1, 2},
      {0, 1, 1, 2, 3, 3, 3, 4},
  };
  std::vector<Shape> shapes;
  for (const std::vector<int>& each : host_of) {
    shapes.push_back({each, true});
    shapes.push_back({each, false});
  }
  return shapes;
}

std::string name_of(const testing::TestParamInfo<Shape>& info) {
  std::string name = info.param.hierarchical ? "ByHosts" : "Flat";
  for (int host : info.param.host_of) name += std::to_string(host);
  return name;
}

INSTANTIATE_TEST_SUITE_P(Shapes, SequenceOnHosts, testing::ValuesIn(shapes()), name_of);

}  // namespace
}  // namespace hvd::test
