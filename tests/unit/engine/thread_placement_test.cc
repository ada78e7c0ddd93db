// SPDX-License-Identifier: Apache-2.0
#include "engine/thread_placement.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace hvd::engine {
namespace {

TEST(ThreadPlacement, RanksFillTheCores) {
  const Cores cores;
  if (!cores.all()) GTEST_SKIP() << "this process may not use all cores";
  EXPECT_EQ(ThreadPlacement::filled(cores.count(), cores), cores.count() > 1);
  EXPECT_FALSE(ThreadPlacement::filled(cores.count() + 1, cores));
  EXPECT_FALSE(ThreadPlacement::filled(cores.count() - 1, cores));
}

TEST(ThreadPlacement, RanksThatAreBoundDoNotFillThem) {
  std::thread([] {
    const Cores before;
    if (before.count() < 2) GTEST_SKIP() << "this process may use one core only";
    ASSERT_TRUE(Cores::only(current_core()).use());
    EXPECT_FALSE(ThreadPlacement::filled(1, Cores()));
    EXPECT_FALSE(ThreadPlacement::filled(before.count(), Cores()));
  }).join();
}

// The number of cores that a thread of its own has after go_there(), and the core it is on.
std::pair<int, int> gone(ThreadPlacement& placement) {
  std::pair<int, int> found;
  std::thread([&] {
    placement.begin();
    placement.go_there();
    found = {Cores().count(), current_core()};
  }).join();
  return found;
}

TEST(ThreadPlacement, TheThreadGoesToWhereItIsCalled) {
  const Cores all;
  ThreadPlacement placement(true, true, all);
  EXPECT_EQ(gone(placement).first, all.count());  // nobody has called yet
  int caller = -1;
  std::thread([&] {
    ASSERT_TRUE(Cores::only(caller = current_core()).use());
    placement.move_here();
  }).join();
  EXPECT_EQ(gone(placement), std::pair(1, caller));
}

TEST(ThreadPlacement, OnlyTheThreadGoes) {
  const Cores all;
  ThreadPlacement placement(true, true, all);
  placement.move_here();
  gone(placement);
  placement.move_here();
  placement.go_there();
  EXPECT_EQ(Cores().count(), all.count());
}

TEST(ThreadPlacement, IsLeftForGood) {
  const Cores all;
  ThreadPlacement placement(true, true, all);
  std::thread([&] {
    placement.begin();
    placement.move_here();
    placement.go_there();
    EXPECT_EQ(Cores().count(), 1);
    placement.leave();
    placement.move_here();
    placement.go_there();
    EXPECT_EQ(Cores().count(), all.count());
  }).join();
}

TEST(ThreadPlacement, LeavesTheThreadFreeWhereUnwantedOrNotNeeded) {
  const Cores all;
  for (const auto& [wanted, filled] : {std::pair(false, true), std::pair(true, false)}) {
    ThreadPlacement placement(wanted, filled, all);
    placement.move_here();
    EXPECT_EQ(gone(placement).first, all.count());
  }
}

}  // namespace
}  // namespace hvd::engine
