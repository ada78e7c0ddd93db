// SPDX-License-Identifier: Apache-2.0
#include "observe/clock_offset.h"

#include <gtest/gtest.h>

namespace hvd::observe {
namespace {

TEST(ClockOffset, IsUnknownUntilMomentsOnBothSidesAre) {
  OffsetRange range;
  EXPECT_FALSE(range.middle().known);
  range.before(100, 40);
  EXPECT_FALSE(range.middle().known);
  range.after(120, 40);
  EXPECT_TRUE(range.middle().known);
}

TEST(ClockOffset, LiesWithinWhatTheMomentsAllow) {
  // This host's clock is 1000 behind rank 0's.
  OffsetRange range;
  range.before(5000, 4030);  // rank 0's 5000 is 4000 here
  range.after(5200, 4100);   // rank 0's 5200 is 4200 here
  const ClockOffset wide = range.middle();
  EXPECT_LE(wide.offset - wide.error, 1000);
  EXPECT_GE(wide.offset + wide.error, 1000);
  EXPECT_EQ(wide.error, (1100 - 970) / 2);

  OffsetRange quick;  // of another rank of the host, whose messages took less time
  quick.before(6000, 5010);
  quick.after(6100, 5095);
  range.cut(quick);
  const ClockOffset narrow = range.middle();
  EXPECT_LE(narrow.offset - narrow.error, 1000);
  EXPECT_GE(narrow.offset + narrow.error, 1000);
  EXPECT_EQ(narrow.error, 8);  // from 990 to 1005
}

}  // namespace
}  // namespace hvd::observe
