// SPDX-License-Identifier: Apache-2.0
// Allreduce for every type, operator and size class, in place and not, byte by byte against
// combining in member order.
#include <gtest/gtest.h>

#include "unit/collectives/cases.h"
#include "unit/collectives/sanitizers.h"
#include "unit/collectives/values.h"
#include "unit/collectives/world.h"

namespace hvd::test {
namespace {

void run_on_all(World& world, const Case& test) {
  world.run([&](int member) {
    EXPECT_EQ(run_case(test, {member, world.host_of(), false}, world.state(member), finish), "")
        << "member " << member;
  });
}

Case allreduce_of(const World& world, DType dtype, ReduceOp op, std::vector<size_t> counts) {
  Case test;
  test.seed = 42;
  test.dtype = dtype;
  test.op = op;
  test.counts = std::move(counts);
  test.joined.resize(static_cast<size_t>(world.size()));
  return test;
}

TEST(Allreduce, EveryTypeAndOperator) {
  for (int size : {1, 2, 3, 5}) {
    if (kSanitized && size == 5) continue;  // nothing new, a minute longer
    World world = World::on_one_host(size);
    for (int32_t type = 0; dtype_reducible(static_cast<DType>(type)); ++type) {
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
        if (dtype_complex(static_cast<DType>(type)) && op != ReduceOp::kSum) continue;
        for (size_t count : {1u, 7u, 1000u, 100003u}) {
          Case test = allreduce_of(world, static_cast<DType>(type), op, {count});
          test.in_place = count % 2 == 1;
          run_on_all(world, test);
        }
      }
    }
  }
}

TEST(Allreduce, SizesAroundEveryThreshold) {
  World world = World::on_one_host(2);
  for (size_t limit : {24u, 64u, 32768u, 65536u, 131072u, 262144u, 524288u}) {
    for (size_t count : {limit - 1, limit + 0, limit + 1}) {
      run_on_all(world, allreduce_of(world, DType::kUint8, ReduceOp::kSum, {count}));
    }
  }
}

TEST(Allreduce, ManyPieces) {
  for (int size : {2, 3}) {
    World world = World::on_one_host(size);
    for (bool scaled : {false, true}) {
      for (const std::vector<size_t>& counts :
           {std::vector<size_t>(10000, 1), std::vector<size_t>(100, 1024),
            std::vector<size_t>(50000, 3), std::vector<size_t>{1, 300000, 0, 1, 1, 65536, 3},
            std::vector<size_t>(3, 0)}) {
        Case test = allreduce_of(world, DType::kFloat32, ReduceOp::kSum, counts);
        test.prescale = scaled ? 0.1 : 1.0;
        test.in_place = scaled;
        run_on_all(world, test);
      }
    }
  }
}

TEST(Allreduce, JoinedMembersContributeNothing) {
  World world = World::on_one_host(4);
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    for (size_t count : {5u, 5000u, 500000u}) {
      Case test = allreduce_of(world, DType::kInt32, op, {count, count});
      test.joined = {false, true, false, true};
      run_on_all(world, test);
      test.joined = {true, true, true, true};
      run_on_all(world, test);
    }
  }
}

// Known numbers, independent of the kernels.
TEST(Allreduce, SumsWhatPeopleExpect) {
  World world = World::on_one_host(3);
  world.run([&](int member) {
    std::vector<float> values(200000);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i % 100) + static_cast<float>(member);
    const collectives::Item item{.in = values.data(), .out = values.data(), .count = values.size()};
    const collectives::Work work{.kind = Kind::kAllreduce,
                                 .dtype = DType::kFloat32,
                                 .postscale = 1.0 / 3,
                                 .items = {&item, 1}};
    finish(collectives::start(world.state(member), work));
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_FLOAT_EQ(values[i], static_cast<float>(i % 100) + 1) << i;
  });
}

// A state may be created anew over memory whose counters have moved on.
TEST(LaneState, ContinuesWhereTheMemoryStands) {
  World world = World::on_one_host(2);
  for (int i = 0; i < 3; ++i) {
    run_on_all(world, allreduce_of(world, DType::kInt32, ReduceOp::kSum, {3}));
    run_on_all(world, allreduce_of(world, DType::kInt32, ReduceOp::kSum, {300000}));
    world.renew();
  }
}

// The counters are compared by difference and may wrap around.
TEST(LaneState, CountersWrapAround) {
  World world = World::on_one_host(3);
  world.set_round(0xfffffff0u);
  for (int i = 0; i < 20; ++i) {
    run_on_all(world,
               allreduce_of(world, DType::kInt32, ReduceOp::kSum, {i % 2 == 0 ? 3u : 300000u}));
  }
}

// A program that waits can be dropped; destroying it needs no cooperation of the other members.
TEST(LaneState, WaitingProgramsCanBeDestroyed) {
  World world = World::on_one_host(2);
  std::vector<int32_t> values(1000000);
  const collectives::Item item{.in = values.data(), .out = values.data(), .count = values.size()};
  const collectives::Work work{
      .kind = Kind::kAllreduce, .dtype = DType::kInt32, .items = {&item, 1}};
  collectives::Program program = collectives::start(world.state(0), work);
  EXPECT_FALSE(program.done());
  EXPECT_TRUE(program.step());
  EXPECT_FALSE(program.step());
  EXPECT_EQ(program.waiting_for(), 1);
}

}  // namespace
}  // namespace hvd::test
