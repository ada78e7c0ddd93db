// SPDX-License-Identifier: Apache-2.0
// Every kind of operation, on the world or a set, before or after some ranks have joined, or both:
// it ends well or says that it is not possible with which rank; every join ends with the rank that
// joined last; and everything works again afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "world.h"

namespace hvd::model {
namespace {

using Ask = World::Ask;

constexpr OpKind kKinds[] = {OpKind::kAllreduce, OpKind::kAllgather,     OpKind::kBroadcast,
                             OpKind::kAlltoall,  OpKind::kReducescatter, OpKind::kBarrier,
                             OpKind::kGather,    OpKind::kCreateSet,     OpKind::kConfirmSet,
                             OpKind::kDestroySet};

bool works_with_joined(OpKind kind) {
  return kind == OpKind::kAllreduce || kind == OpKind::kBarrier;
}
bool of_all_ranks(OpKind kind) { return kind >= OpKind::kCreateSet; }

// What each rank does: its operations in its own order, then the join, or the join first. The ranks
// that join early never call it.
class Joining {
 public:
  Joining(OpKind kind, uint32_t set, unsigned early, uint64_t seed)
      : random_(seed),
        kind_(kind),
        set_(set),
        early_(early),
        world_(4, options(), chance(50), {{1, 2, 3}}),
        ranks_(set == 0 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{1, 2, 3}) {}

  void play() {
    for (int round = 0; round < 2; ++round) {
      for (const int rank : shuffled()) act(rank, round);
      world_.settle();
      for (const int rank : ranks_) {
        if (!joins_early(rank)) join(rank);
        stir();
      }
      world_.settle();
      check_round();
      if (testing::Test::HasFatalFailure()) return;
    }
    // Without anybody joined all kinds work again.
    std::vector<std::pair<int, size_t>> after;
    for (const int rank : ranks_) after.emplace_back(rank, world_.submit(rank, ask(0)));
    world_.settle();
    for (const auto& [rank, index] : after) {
      ASSERT_TRUE(world_.ended(rank, index) && world_.result(rank, index).ok())
          << world_.result(rank, index).message();
    }
  }

 private:
  static Options options() {
    Options options;
    options.stall_check_time_seconds = 0;
    return options;
  }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  bool joins_early(int rank) const { return (early_ >> rank & 1u) != 0; }
  std::vector<int> shuffled() {
    std::vector<int> order = ranks_;
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }
  void stir() {
    for (int step = pick(0, 12); step > 0; --step) {
      world_.deliver(pick(0, 3), pick(0, 3));
      world_.progress(pick(0, 3));
    }
  }

  Ask ask(int name) {
    Ask ask;
    ask.kind = kind_;
    ask.name = "t" + std::to_string(name);
    ask.set = set_;
    ask.root = ranks_.back();
    ask.eager = kind_ == OpKind::kAllreduce && chance(50);
    ask.dims = {kind_ == OpKind::kAllreduce ? 1 : 3};
    if (kind_ == OpKind::kAllgather || kind_ == OpKind::kGather) ask.variable = {3};
    if (kind_ == OpKind::kAlltoall)
      ask.variable.assign(ranks_.size(), 1), ask.dims = {static_cast<int64_t>(ranks_.size())};
    return ask;
  }

  void join(int rank) {
    Ask ask;
    ask.kind = OpKind::kJoin;
    ask.name = negotiation::kJoinName;
    ask.set = set_;
    joins_.emplace_back(rank, world_.submit(rank, ask));
  }

  // One operation that all announce, one that those who join early leave out; in either order.
  void act(int rank, int round) {
    operations_.emplace_back(rank, world_.submit(rank, ask(2 * round)));
    stir();
    if (joins_early(rank)) {
      join(rank);
    } else {
      lonely_.emplace_back(rank, world_.submit(rank, ask(2 * round + 1)));
    }
    stir();
  }

  void check_round() {
    ASSERT_FALSE(world_.broken()) << world_.broken_with().message();
    for (const auto& [rank, index] : operations_) {
      ASSERT_TRUE(world_.ended(rank, index) && world_.result(rank, index).ok())
          << world_.result(rank, index).message();
    }
    for (const auto& [rank, index] : lonely_) {
      ASSERT_TRUE(world_.ended(rank, index)) << world_.subject(rank, index) << " on rank " << rank;
      const Status& status = world_.result(rank, index);
      if (works_with_joined(kind_) || early_ == 0) {
        ASSERT_TRUE(status.ok()) << status.message();
      } else {
        ASSERT_EQ(status.code(), Code::kMismatch) << status.message();
        ASSERT_NE(status.message().find("not possible after rank "), std::string::npos)
            << status.message();
        ASSERT_TRUE(joins_early(status.rank())) << status.message();
      }
    }
    for (const auto& [rank, index] : joins_) {
      ASSERT_TRUE(world_.ended(rank, index) && world_.result(rank, index).ok())
          << "join on rank " << rank;
      ASSERT_EQ(world_.last_joined(rank, index),
                world_.last_joined(joins_[0].first, joins_[0].second));
    }
    operations_.clear();
    lonely_.clear();
    joins_.clear();
  }

  std::mt19937_64 random_;
  OpKind kind_;
  uint32_t set_;
  unsigned early_;
  World world_;
  std::vector<int> ranks_;
  std::vector<std::pair<int, size_t>> operations_;
  std::vector<std::pair<int, size_t>> lonely_;
  std::vector<std::pair<int, size_t>> joins_;
};

TEST(Joined, EveryKindOnTheWorldAndOnASet) {
  int runs = 0;
  for (const OpKind kind : kKinds) {
    for (const uint32_t set : {0u, 1u}) {
      if (set != 0 && of_all_ranks(kind)) continue;
      for (unsigned early = 0; early < 16; ++early) {
        // somebody is left who calls it
        if (early == 15 || (set == 1 && ((early & 1) != 0 || early == 14))) continue;
        for (uint64_t seed = 1; seed <= 40; ++seed, ++runs) {
          SCOPED_TRACE(std::string(op_kind_name(kind)) + " on set " + std::to_string(set) +
                       ", early " + std::to_string(early) + ", seed " + std::to_string(seed));
          Joining(kind, set, early, seed).play();
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
  std::printf("%d jobs with ranks that join\n", runs);
}

}  // namespace
}  // namespace hvd::model
