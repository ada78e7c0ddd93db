// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for each other, on the world and on process sets that share names: a program that
// would go on does, however late a rank is; where nobody would ever come, each rank says whom it
// waits for and what that one does instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "world.h"

namespace hvd::model {
namespace {

using Ask = World::Ask;

Options options_with(double check, double limit) {
  Options options;
  options.stall_check_time_seconds = check;
  options.stall_shutdown_time_seconds = limit;
  return options;
}

Ask waiting(OpKind kind, const std::string& name, uint32_t set = 0) {
  Ask ask;
  ask.kind = kind;
  ask.name = name;
  ask.set = set;
  ask.awaited = true;
  return ask;
}

// As the engine looks at its clock.
constexpr Duration kTick = std::chrono::milliseconds(100);

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Every rank does the same calls on its own sets and on the world, one after another, all under one
// or two names; now and then a rank is late, by more than it takes until all others have reported a
// stall.
class EqualNames {
 public:
  explicit EqualNames(uint64_t seed)
      : random_(seed), world_(4, options_with(3, 0), chance(50), sets()) {
    const int calls = pick(2, 8);
    for (int call = 0; call < calls; ++call)
      program_.push_back({pick(0, 2), pick(0, 2), pick(0, 1)});
    at_.assign(4, 0);
    current_.assign(4, -1);
  }

  void play() {
    for (int step = 0; step < 3000; ++step) {
      const int rank = pick(0, 3);
      if (rank != late_) go_on(rank);
      world_.deliver(pick(0, 3), pick(0, 3));
      world_.progress(pick(0, 3));
      if (step % 200 == 0) late_ = pick(-1, 3);
      if (step % 5 == 0) world_.advance(std::chrono::milliseconds(pick(0, 400)));
    }
    late_ = -1;
    for (int round = 0; round < 100; ++round) {
      for (int rank = 0; rank < 4; ++rank) go_on(rank);
      world_.settle();
    }
  }

  void check() {
    ASSERT_EQ(world_.fault(), "");
    ASSERT_FALSE(world_.broken()) << world_.broken_with().message();
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_EQ(at_[static_cast<size_t>(rank)], program_.size()) << "rank " << rank;
      for (size_t index = 0; index < world_.submitted(rank); ++index) {
        ASSERT_TRUE(world_.ended(rank, index))
            << world_.subject(rank, index) << " on rank " << rank;
        ASSERT_TRUE(world_.result(rank, index).ok()) << world_.result(rank, index).message();
      }
    }
  }

 private:
  struct Call {
    int where;  // 0: the world, 1: {0 2} and {1 3}, 2: {0 1} and {1 2 3}
    int kind;
    int name;
  };
  static std::vector<std::vector<int>> sets() { return {{0, 2}, {1, 3}, {0, 1}, {1, 2, 3}}; }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  // The rank's next call, if its last one has ended. Rank 1 is in both overlapping sets, and calls
  // them in order.
  void go_on(int rank) {
    const auto r = static_cast<size_t>(rank);
    if (current_[r] >= 0 && !world_.ended(rank, static_cast<size_t>(current_[r]))) return;
    if (at_[r] == program_.size()) return;
    const Call& call = program_[at_[r]];
    uint32_t set = 0;
    if (call.where == 1) set = rank % 2 == 0 ? 1 : 2;
    if (call.where == 2) set = rank == 0 || (rank == 1 && !second_) ? 3 : 4;
    const OpKind kinds[] = {OpKind::kAllreduce, OpKind::kBarrier, OpKind::kBroadcast};
    Ask ask = waiting(kinds[call.kind], call.name == 0 ? "n" : "unnamed.0", set);
    ask.root = set == 0 ? 0 : sets()[set - 1][0];
    current_[r] = static_cast<int64_t>(world_.submit(rank, ask));
    const bool again = call.where == 2 && rank == 1 && !second_;
    if (rank == 1) second_ = again;
    if (!again) ++at_[r];
  }

  std::mt19937_64 random_;
  World world_;
  std::vector<Call> program_;
  std::vector<size_t> at_;
  std::vector<int64_t> current_;
  bool second_ = false;  // rank 1 is to make its call on the second of the overlapping sets
  int late_ = -1;
};

TEST(Waiting, EqualNamesOnSeveralSetsNeverDisturbEachOther) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EqualNames run(seed);
    run.play();
    run.check();
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Waiting, TheReportSaysWhatTheMissingRankWaitsFor) {
  World world(3, options_with(5, 0), false, {{1, 2}});
  world.submit(0, waiting(OpKind::kAllreduce, "t"));
  world.submit(1, waiting(OpKind::kAllreduce, "t", 1));
  world.settle(kTick);
  ASSERT_FALSE(world.warnings(0).empty());
  EXPECT_EQ(world.warnings(0)[0],
            "allreduce \"t\": stalled for 5 s; missing ranks 1 2 of 3; rank 1 waits in allreduce "
            "\"t\" of process set 1");
  ASSERT_FALSE(world.warnings(1).empty());
  EXPECT_EQ(world.warnings(1)[0], "allreduce \"t\": stalled for 5 s; missing ranks 2 of 2");
  EXPECT_TRUE(world.warnings(2).empty());
}

TEST(Waiting, TheEndOfAStallNamesEachRanksOwnOperation) {
  World world(2, options_with(2, 4), false);
  const size_t loss = world.submit(0, waiting(OpKind::kAllreduce, "valloss"));
  const size_t meeting = world.submit(1, waiting(OpKind::kBarrier, "b"));
  world.settle(kTick);
  ASSERT_TRUE(world.ended(0, loss) && world.ended(1, meeting));
  EXPECT_EQ(world.result(0, loss).message(),
            "allreduce \"valloss\": stalled for 4 s; missing ranks 1 of 2; rank 1 waits in barrier "
            "\"b\"");
  EXPECT_EQ(world.result(1, meeting).message(),
            "barrier \"b\": stalled for 4 s; missing ranks 0 of 2; rank 0 waits in allreduce "
            "\"valloss\"");
  EXPECT_EQ(world.result(0, loss).code(), Code::kShutDown);
}

TEST(Waiting, ATimeLimitSaysWhatTheMissingRankWaitsFor) {
  World world(2, options_with(0, 0), false);
  Ask ask = waiting(OpKind::kAllreduce, "t");
  ask.timeout = std::chrono::seconds(3);
  const size_t timed = world.submit(0, ask);
  world.submit(1, waiting(OpKind::kBarrier, "b"));
  world.settle(kTick);
  ASSERT_EQ(world.result(0, timed).code(), Code::kTimeout);
  EXPECT_TRUE(world.result(0, timed).message().ends_with(
      "; missing ranks 1 of 2; rank 1 waits in barrier \"b\""))
      << world.result(0, timed).message();
}

// Which of the ranks stands still: the coordinator, whom the others would ask, or another one.
TEST(Waiting, ARankThatStandsStillIsNamedByAllOthers) {
  for (int frozen = 0; frozen < 3; ++frozen) {
    SCOPED_TRACE("rank " + std::to_string(frozen));
    World world(3, options_with(2, 4), false);
    world.freeze(frozen, true);
    const std::string who = "rank " + std::to_string(frozen);
    std::vector<std::pair<int, size_t>> asked;
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != frozen)
        asked.emplace_back(rank, world.submit(rank, waiting(OpKind::kAllreduce, "t")));
    }
    world.settle(kTick);
    for (const auto& [rank, index] : asked) {
      ASSERT_FALSE(world.warnings(rank).empty());
      EXPECT_TRUE(contains(world.warnings(rank)[0], who) &&
                  contains(world.warnings(rank)[0], "does not answer"))
          << world.warnings(rank)[0];
      ASSERT_TRUE(world.ended(rank, index));
      EXPECT_TRUE(contains(world.result(rank, index).message(),
                           frozen == 0 ? who + " did not answer" : who + " does not answer"))
          << world.result(rank, index).message();
    }
    if (frozen == 0) {
      EXPECT_EQ(world.broken_with().rank(), 0);
      EXPECT_EQ(world.broken_with().code(), Code::kPeerLost);
    }
  }
}

TEST(Waiting, ARankThatWakesInTimeIsForgiven) {
  World world(2, options_with(2, 60), false);
  world.freeze(0, true);
  const size_t mine = world.submit(1, waiting(OpKind::kAllreduce, "t"));
  world.settle(kTick);
  EXPECT_FALSE(world.warnings(1).empty());
  world.freeze(0, false);
  world.submit(0, waiting(OpKind::kAllreduce, "t"));
  world.settle(kTick);
  EXPECT_FALSE(world.broken()) << world.broken_with().message();
  EXPECT_TRUE(world.ended(1, mine) && world.result(1, mine).ok());
}

}  // namespace
}  // namespace hvd::model
