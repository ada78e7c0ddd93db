// SPDX-License-Identifier: Apache-2.0
// One name for operations of several kinds: in flight together where ranks allow that, and
// otherwise a mismatch.
#include <gtest/gtest.h>

#include "world.h"

namespace hvd::model {
namespace {

using Ask = World::Ask;

Options options(bool by_kind) {
  Options options;
  options.names_by_kind = by_kind;
  options.stall_check_time_seconds = 5;
  return options;
}

Ask ask(OpKind kind, std::string name = "x") {
  Ask ask;
  ask.kind = kind;
  ask.name = std::move(name);
  if (kind == OpKind::kAllgather) ask.variable = {1};
  return ask;
}

TEST(Kinds, AreInFlightTogetherInAnyOrder) {
  const OpKind kinds[] = {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kBroadcast,
                          OpKind::kBarrier};
  World world(3, options(true), false);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::pair<int, size_t>> all;
    for (int rank = 0; rank < 3; ++rank) {
      for (int i = 0; i < 4; ++i)
        all.emplace_back(rank, world.submit(rank, ask(kinds[(i + rank) % 4])));
    }
    world.settle();
    for (const auto& [rank, index] : all) {
      ASSERT_TRUE(world.ended(rank, index) && world.result(rank, index).ok())
          << world.result(rank, index).message();
    }
  }
  EXPECT_FALSE(world.broken());
}

TEST(Kinds, ThatDifferAreAMismatchWhereARankHasOneAtATime) {
  World world(3, options(false), false);
  for (int round = 0; round < 3; ++round) {
    for (const int last : {0, 1, 2}) {
      std::vector<size_t> indices(3);
      for (int i = 0; i < 3; ++i) {
        const int rank = (last + 1 + i) % 3;
        indices[static_cast<size_t>(rank)] =
            world.submit(rank, ask(rank == 1 ? OpKind::kBroadcast : OpKind::kAllreduce));
        world.settle();
      }
      for (int rank = 0; rank < 3; ++rank) {
        const size_t index = indices[static_cast<size_t>(rank)];
        ASSERT_TRUE(world.ended(rank, index));
        EXPECT_EQ(world.result(rank, index).code(), Code::kMismatch);
        EXPECT_EQ(world.result(rank, index).message(),
                  world.subject(rank, index) +
                      ": operation differs: rank 0 allreduce, rank 1 broadcast, rank 2 allreduce");
      }
      for (int rank = 0; rank < 3; ++rank)
        indices[static_cast<size_t>(rank)] = world.submit(rank, ask(OpKind::kBroadcast));
      world.settle();
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_TRUE(world.result(rank, indices[static_cast<size_t>(rank)]).ok());
      }
    }
  }
}

// Rank 1 might still call the allreduce, and the others the broadcast.
TEST(Kinds, ThatDifferAreReportedWhereARankMayHaveSeveral) {
  World world(2, options(true), false);
  const size_t sum = world.submit(0, ask(OpKind::kAllreduce));
  const size_t copy = world.submit(1, ask(OpKind::kBroadcast));
  world.settle(std::chrono::milliseconds(100));
  ASSERT_FALSE(world.warnings(0).empty());
  EXPECT_EQ(
      world.warnings(0)[0],
      "allreduce \"x\": stalled for 5 s; missing ranks 1 of 2; rank 1 has begun broadcast \"x\"");
  EXPECT_FALSE(world.ended(0, sum) || world.ended(1, copy));
  world.submit(0, ask(OpKind::kBroadcast));
  world.submit(1, ask(OpKind::kAllreduce));
  world.settle();
  EXPECT_TRUE(world.result(0, sum).ok() && world.ended(0, sum) && world.ended(1, copy));
}

}  // namespace
}  // namespace hvd::model
