// SPDX-License-Identifier: Apache-2.0
// S7 of the reliability design: who has to go when strangers are too many.
#include "secure/strangers.h"

#include <gtest/gtest.h>

namespace hvd::secure {
namespace {

using namespace std::chrono_literals;

constexpr Time kStart{1h};

TEST(Strangers, S7_AreFewAndTheOldestOfTheBusiestSourceGoes) {
  Strangers strangers;
  for (int id = 0; id < 24; ++id) strangers.add(id, "quiet", kStart);
  for (int id = 24; id < 64; ++id) {
    EXPECT_FALSE(strangers.victim());
    strangers.add(id, "busy", kStart + id * 1ms);
  }
  ASSERT_TRUE(strangers.victim());
  EXPECT_EQ(strangers.victim()->id, 24);
  EXPECT_EQ(strangers.victim()->since, kStart + 24ms);
  strangers.remove(24);
  EXPECT_FALSE(strangers.victim());
  EXPECT_FALSE(strangers.has(24));
}

TEST(Strangers, S7_OneSourceHasItsShare) {
  Strangers strangers;
  for (int id = 0; id < 49; ++id) strangers.add(id, "one", kStart);
  strangers.add(100, "two", kStart - 1s);
  EXPECT_FALSE(strangers.excess("one", kStart + Strangers::kGrace - 1ns))
      << "ranks that all come at once";
  ASSERT_TRUE(strangers.excess("one", kStart + Strangers::kGrace));
  EXPECT_EQ(strangers.excess("one", kStart + Strangers::kGrace)->id, 0);
  EXPECT_FALSE(strangers.excess("two", kStart + 1s));
  strangers.remove(0);
  EXPECT_FALSE(strangers.excess("one", kStart + 1s));
}

TEST(Strangers, TheCredibleGoLast) {
  Strangers strangers;
  for (int id = 0; id < 64; ++id) strangers.add(id, "one", kStart + id * 1ms);
  for (int id = 0; id < 63; ++id) strangers.believe(id);
  EXPECT_EQ(strangers.victim()->id, 63);
  EXPECT_EQ(strangers.least_credible()->id, 63);
  strangers.believe(63);
  EXPECT_EQ(strangers.victim()->id, 0);
  EXPECT_FALSE(strangers.least_credible());
}

TEST(Strangers, S7_HaveFiveSeconds) {
  Strangers strangers;
  EXPECT_EQ(strangers.next_overdue(), kNever);
  strangers.add(1, "one", kStart);
  strangers.add(2, "one", kStart + 1s);
  strangers.believe(1);
  EXPECT_EQ(strangers.next_overdue(), kStart + 5s);
  EXPECT_FALSE(strangers.overdue(kStart + 5s - 1ns));
  EXPECT_EQ(strangers.overdue(kStart + 5s), 1);
  strangers.remove(1);
  EXPECT_FALSE(strangers.overdue(kStart + 5s));
  EXPECT_EQ(strangers.overdue(kStart + 6s), 2);
}

}  // namespace
}  // namespace hvd::secure
