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
  Contention contention;
  Backoff backoff(policy, contention);
  const Time start = now();
  while (backoff.pause()) ASSERT_LT(now() - start, hvd::testing::scaled(10s));
  const bool contended = contention.lasts(start);  // by other programs, while it yielded
  EXPECT_GE(now() - start, contended ? 3ms : 7ms);
  EXPECT_GE(backoff.waited(), contended ? 3ms : 7ms);
}

TEST(Backoff, ResetBeginsAnew) {
  BackoffPolicy policy;
  policy.spin = 2ms;
  policy.yield = Duration::zero();
  Contention contention;
  Backoff backoff(policy, contention);
  while (backoff.pause()) {
  }
  backoff.reset();
  EXPECT_EQ(backoff.waited(), Duration::zero());
  const Time start = now();
  EXPECT_TRUE(backoff.pause());
  while (backoff.pause()) ASSERT_LT(now() - start, hvd::testing::scaled(10s));
  EXPECT_GE(now() - start, 2ms);
}

TEST(Backoff, DoesNotYieldUnderContention) {
  BackoffPolicy policy;
  policy.spin = Duration::zero();
  policy.yield = 10s;
  Contention contention;
  const Time start = now();
  contention.yielded(start - 100us, start);
  EXPECT_TRUE(Backoff(policy, contention).pause());
  const Time later = start + 1h;
  contention.yielded(later - 3ms, later);  // somebody else had the core
  EXPECT_TRUE(contention.lasts(later + 10ms));
  EXPECT_FALSE(Backoff(policy, contention).pause());
  EXPECT_FALSE(contention.lasts(later + 1s));
}

TEST(Backoff, WithoutTimeItSleepsAtOnce) {
  BackoffPolicy policy;
  policy.spin = policy.yield = Duration::zero();
  Contention contention;
  Backoff backoff(policy, contention);
  EXPECT_FALSE(backoff.pause());
}

}  // namespace
}  // namespace hvd::engine
