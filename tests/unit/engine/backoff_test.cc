// SPDX-License-Identifier: Apache-2.0
#include "engine/backoff.h"

#include <gtest/gtest.h>

#include "unit/time_scale.h"

namespace hvd::engine {
namespace {

using namespace std::chrono_literals;

TEST(BackoffPolicy, SpinsOnlyIfEveryRankHasACore) {
  for (const int ranks : {1, 2, 4}) {
    const BackoffPolicy policy = BackoffPolicy::choose(ranks, 4, 1, -1);
    EXPECT_GT(policy.spin, Duration::zero()) << ranks;
    EXPECT_EQ(policy.pauses_before_yield, 0) << ranks;
  }
  for (const int ranks : {5, 64}) {
    const BackoffPolicy policy = BackoffPolicy::choose(ranks, 4, 1, -1);
    EXPECT_EQ(policy.spin, Duration::zero()) << ranks;
    EXPECT_GT(policy.pauses_before_yield, 0) << ranks;
  }
}

TEST(BackoffPolicy, YieldsAtOnceBetweenHosts) {
  for (const int ranks : {1, 4, 64}) {
    const BackoffPolicy policy = BackoffPolicy::choose(ranks, 4, 2, -1);
    EXPECT_EQ(policy.spin, Duration::zero()) << ranks;
    EXPECT_EQ(policy.pauses_before_yield, 0) << ranks;
    EXPECT_GT(policy.yield, 100us) << ranks;
  }
}

TEST(BackoffPolicy, TheOptionWins) {
  EXPECT_EQ(BackoffPolicy::choose(2, 4, 1, 0).spin, Duration::zero());
  EXPECT_EQ(BackoffPolicy::choose(2, 4, 1, 700).spin, 700us);
  EXPECT_EQ(BackoffPolicy::choose(9, 4, 1, 700).spin, 700us);
  EXPECT_EQ(BackoffPolicy::choose(2, 4, 3, 700).spin, 700us);
}

TEST(Backoff, EndsAfterItsTimeAndNotBefore) {
  BackoffPolicy policy;
  policy.spin = 3ms;
  policy.yield = 4ms;
  Crowd crowd;
  Backoff backoff(policy, crowd);
  const Time start = now();
  while (backoff.pause()) ASSERT_LT(now() - start, hvd::testing::scaled(10s));
  const bool crowded = crowd.around(start);  // by other programs, while it yielded
  EXPECT_GE(now() - start, crowded ? 3ms : 7ms);
  EXPECT_GE(backoff.waited(), crowded ? 3ms : 7ms);
}

TEST(Backoff, ResetBeginsAnew) {
  BackoffPolicy policy;
  policy.spin = 2ms;
  policy.yield = Duration::zero();
  Crowd crowd;
  Backoff backoff(policy, crowd);
  while (backoff.pause()) {
  }
  backoff.reset();
  EXPECT_EQ(backoff.waited(), Duration::zero());
  const Time start = now();
  EXPECT_TRUE(backoff.pause());
  while (backoff.pause()) ASSERT_LT(now() - start, hvd::testing::scaled(10s));
  EXPECT_GE(now() - start, 2ms);
}

TEST(Backoff, DoesNotYieldInACrowd) {
  BackoffPolicy policy;
  policy.spin = Duration::zero();
  policy.yield = 10s;
  Crowd crowd;
  const Time start = now();
  crowd.yielded(start - 100us, start);
  EXPECT_TRUE(Backoff(policy, crowd).pause());
  const Time later = start + 1h;
  crowd.yielded(later - 3ms, later);  // somebody else had the core
  EXPECT_TRUE(crowd.around(later + 10ms));
  EXPECT_FALSE(Backoff(policy, crowd).pause());
  EXPECT_FALSE(crowd.around(later + 1s));
}

TEST(Backoff, WithoutTimeItSleepsAtOnce) {
  BackoffPolicy policy;
  policy.spin = policy.yield = Duration::zero();
  Crowd crowd;
  Backoff backoff(policy, crowd);
  EXPECT_FALSE(backoff.pause());
}

}  // namespace
}  // namespace hvd::engine
