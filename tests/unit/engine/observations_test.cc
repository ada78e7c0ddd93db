// SPDX-License-Identifier: Apache-2.0
#include "engine/observations.h"

#include <gtest/gtest.h>

namespace hvd::engine {
namespace {

TEST(CoveredTime, CountsStretchesApart) {
  CoveredTime time;
  EXPECT_EQ(time.add(10, 20), 10U);
  EXPECT_EQ(time.add(30, 35), 5U);
}

TEST(CoveredTime, CountsOverlapsOnce) {
  CoveredTime time;
  EXPECT_EQ(time.add(10, 20), 10U);
  EXPECT_EQ(time.add(12, 20), 0U);
  EXPECT_EQ(time.add(15, 26), 6U);
  EXPECT_EQ(time.add(26, 30), 4U);
}

TEST(CoveredTime, GoesBackToTheLastGap) {
  CoveredTime time;
  EXPECT_EQ(time.add(10, 20), 10U);
  EXPECT_EQ(time.add(30, 40), 10U);
  EXPECT_EQ(time.add(5, 41), 11U);  // 20 to 30, and 40 to 41
  EXPECT_EQ(time.add(7, 41), 0U);
}

TEST(CoveredTime, AStretchWithoutLengthAddsNothing) {
  CoveredTime time;
  EXPECT_EQ(time.add(10, 10), 0U);
  EXPECT_EQ(time.add(11, 10), 0U);
  EXPECT_EQ(time.add(10, 12), 2U);
}

}  // namespace
}  // namespace hvd::engine
