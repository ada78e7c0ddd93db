// SPDX-License-Identifier: Apache-2.0
// Collectives between hosts with so much data that every buffer is used again and again, and around
// the sizes where the algorithms change.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/collectives/cases.h"
#include "unit/collectives/sanitizers.h"
#include "unit/collectives/world.h"

namespace hvd::test {
namespace {

const std::vector<std::vector<int>> kShapes{
    {0, 1}, {0, 1, 2}, {0, 0, 1, 1}, {0, 1, 1}, {0, 1, 1, 2, 0}};

void run_on_all(World& world, const Case& test, bool by_hosts) {
  world.run([&](int member) {
    EXPECT_EQ(run_case(test, {member, world.host_of(), by_hosts}, world.state(member), finish), "")
        << "member " << member << " of " << world.size() << " on " << world.hosts() << " hosts";
  });
}

Case allreduce_of(const World& world, std::vector<size_t> counts) {
  Case test;
  test.seed = 7;
  test.counts = std::move(counts);
  test.joined.resize(static_cast<size_t>(world.size()));
  return test;
}

// Runs `body(world, hierarchical)` on hosts of every shape.
template <class Body>
void on_hosts(Body&& body) {
  for (const std::vector<int>& host_of : kShapes) {
    for (bool hierarchical : {true, false}) {
      World world(host_of,
                  {.hierarchical_allreduce = hierarchical, .hierarchical_allgather = hierarchical});
      body(world, hierarchical);
    }
  }
}

constexpr size_t kLarge = (size_t{3} << 20) / kSlowness + 3;

TEST(Hosts, LargeAllreduce) {
  on_hosts([](World& world, bool hierarchical) {
    Case test = allreduce_of(world, {kLarge / 4});
    run_on_all(world, test, hierarchical);
    test.in_place = true;
    test.postscale = 1.0 / 3;
    run_on_all(world, test, hierarchical);
    test.prescale = 0.5;
    run_on_all(world, test, hierarchical);
  });
}

TEST(Hosts, LargeAllreduceOfManyTensorsAndWithJoinedMembers) {
  on_hosts([](World& world, bool hierarchical) {
    Case test = allreduce_of(world, std::vector<size_t>(37, kLarge / 4 / 37));
    test.op = ReduceOp::kMax;
    run_on_all(world, test, hierarchical);
    test.joined[1] = true;
    run_on_all(world, test, hierarchical);
    test = allreduce_of(world, std::vector<size_t>(20000, 31));  // tiny ones
    test.dtype = DType::kFloat16;
    run_on_all(world, test, hierarchical);
  });
}

TEST(Hosts, LargeReducescatter) {
  on_hosts([](World& world, bool hierarchical) {
    Case test = allreduce_of(world, {});
    test.kind = Kind::kReducescatter;
    std::vector<size_t> shares(static_cast<size_t>(world.size()),
                               kLarge / 4 / static_cast<size_t>(world.size()));
    shares[0] += 1001;
    test.shares = {shares, std::vector<size_t>(shares.size(), 5)};
    run_on_all(world, test, hierarchical);
    test.in_place = true;
    test.prescale = 0.5;
    run_on_all(world, test, hierarchical);
    test.shares = {std::vector<size_t>(shares.size(), 0)};
    run_on_all(world, test, hierarchical);
  });
}

TEST(Hosts, LargeGatherAndBroadcast) {
  on_hosts([](World& world, bool hierarchical) {
    Case test = allreduce_of(world, {kLarge});
    test.shares = {std::vector<size_t>(static_cast<size_t>(world.size()), kLarge / 3)};
    test.shares[0].back() = 77;
    test.kind = Kind::kAllgather;
    run_on_all(world, test, hierarchical);
    test.in_place = true;
    run_on_all(world, test, hierarchical);
    test.kind = Kind::kBroadcast;
    for (test.root = 0; test.root < world.size(); ++test.root)
      run_on_all(world, test, hierarchical);
  });
}

TEST(Hosts, SizesAroundEveryThreshold) {
  for (const std::vector<int>& host_of :
       {std::vector<int>{0, 1}, std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 2}}) {
    World world(host_of);
    for (size_t limit : {64u, 16384u, 32768u, 65536u, 131072u, 262144u, 524288u}) {
      for (size_t count : {limit - 1, limit + 0, limit + 1}) {
        Case test = allreduce_of(world, {count});
        test.dtype = DType::kUint8;
        test.in_place = count % 2 == 0;
        run_on_all(world, test, true);
        test.kind = Kind::kBroadcast;
        run_on_all(world, test, true);
      }
    }
  }
}

// Nobody else has even begun: the program sends what it can and waits.
TEST(Hosts, WaitingProgramsCanBeDestroyed) {
  World world({0, 1});
  std::vector<int32_t> values(1000000);
  const collectives::Item item{.in = values.data(), .out = values.data(), .count = values.size()};
  const collectives::Work work{
      .kind = Kind::kAllreduce, .dtype = DType::kInt32, .items = {&item, 1}};
  collectives::Program program = collectives::start(world.state(0), work);
  EXPECT_TRUE(program.step());
  for (int i = 0; i < 1000; ++i) program.step();
  EXPECT_FALSE(program.step()) << "nothing can move any more";
  EXPECT_FALSE(program.done());
  EXPECT_EQ(program.waiting_for(), 1);
}

}  // namespace
}  // namespace hvd::test
