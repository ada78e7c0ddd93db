// SPDX-License-Identifier: Apache-2.0
#include "engine/home_core.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace hvd::engine {
namespace {

TEST(HomeCore, IsWantedWhereRanksFillAllCores) {
  const Cores cores;
  if (!cores.all()) GTEST_SKIP() << "this process may not use all cores";
  EXPECT_EQ(HomeCore::wanted(cores.count(), cores), cores.count() > 1);
  EXPECT_FALSE(HomeCore::wanted(cores.count() + 1, cores));
  EXPECT_FALSE(HomeCore::wanted(cores.count() - 1, cores));
}

TEST(HomeCore, IsNotWantedByRanksThatAreBound) {
  std::thread([] {
    const Cores before;
    if (before.count() < 2) GTEST_SKIP() << "this process may use one core only";
    ASSERT_TRUE(Cores::only(current_core()).use());
    EXPECT_FALSE(HomeCore::wanted(1, Cores()));
    EXPECT_FALSE(HomeCore::wanted(before.count(), Cores()));
  }).join();
}

// The number of cores that a thread of its own has after go_there(), and the core it is on.
std::pair<int, int> gone(HomeCore& home) {
  std::pair<int, int> found;
  std::thread([&] {
    home.begin();
    home.go_there();
    found = {Cores().count(), current_core()};
  }).join();
  return found;
}

TEST(HomeCore, TheThreadGoesToWhereItIsCalled) {
  const Cores all;
  HomeCore home(true, all);
  EXPECT_EQ(gone(home).first, all.count());  // nobody has called yet
  int caller = -1;
  std::thread([&] {
    ASSERT_TRUE(Cores::only(caller = current_core()).use());
    home.move_here();
  }).join();
  EXPECT_EQ(gone(home), std::pair(1, caller));
}

TEST(HomeCore, OnlyTheThreadGoes) {
  const Cores all;
  HomeCore home(true, all);
  home.move_here();
  gone(home);
  home.move_here();
  home.go_there();
  EXPECT_EQ(Cores().count(), all.count());
}

TEST(HomeCore, IsLeftForGood) {
  const Cores all;
  HomeCore home(true, all);
  std::thread([&] {
    home.begin();
    home.move_here();
    home.go_there();
    EXPECT_EQ(Cores().count(), 1);
    home.leave();
    home.move_here();
    home.go_there();
    EXPECT_EQ(Cores().count(), all.count());
  }).join();
}

TEST(HomeCore, UnwantedItLeavesTheThreadFree) {
  const Cores all;
  HomeCore home(false, all);
  home.move_here();
  EXPECT_EQ(gone(home).first, all.count());
}

}  // namespace
}  // namespace hvd::engine
