// SPDX-License-Identifier: Apache-2.0
#include "transport/liveness.h"

#include <gtest/gtest.h>

namespace hvd::transport {
namespace {

using namespace std::chrono_literals;

// Ranks 0 and 1 on host a, 2 and 3 on host b, 4 on host c; this is rank 0.
Topology three_hosts() {
  return Topology({{0, 1, "a"}, {1, 1, "a"}, {2, 1, "b"}, {3, 1, "b"}, {4, 1, "c"}}, 0);
}

class LivenessTest : public ::testing::Test {
 protected:
  // Moves the clock in steps of the interval; ranks for which `alive` says so are heard at each.
  // The news of all steps.
  Liveness::News run(Duration duration, const std::vector<int>& alive) {
    Liveness::News all;
    for (const Time end = time_ + duration; time_ < end;) {
      time_ += liveness_.interval();
      for (const int rank : alive) liveness_.heard(rank, time_);
      Liveness::News news = liveness_.tick(time_);
      for (const int rank : news.tell) liveness_.told(rank, time_);
      all.tell.insert(all.tell.end(), news.tell.begin(), news.tell.end());
      all.suspects.insert(all.suspects.end(), news.suspects.begin(), news.suspects.end());
      all.lost.insert(all.lost.end(), news.lost.begin(), news.lost.end());
    }
    return all;
  }

  Time time_ = Time(Duration(1h));
  Liveness liveness_{three_hosts(), 10s, time_};
};

std::vector<int> ranks_of(const std::vector<Liveness::Silence>& silences) {
  std::vector<int> ranks;
  for (const Liveness::Silence& silence : silences) ranks.push_back(silence.rank);
  return ranks;
}

TEST_F(LivenessTest, WhoIsHeardIsNeitherSuspectNorLost) {
  const Liveness::News news = run(60s, {2, 3, 4});
  EXPECT_TRUE(news.suspects.empty());
  EXPECT_TRUE(news.lost.empty());
}

TEST_F(LivenessTest, TellsOtherHostsAtEachInterval) {
  const Liveness::News news = run(liveness_.interval(), {2, 3, 4});
  EXPECT_EQ((std::vector<int>{2, 3, 4}), news.tell);
}

TEST_F(LivenessTest, SilenceIsSuspiciousAtHalfAndDeadlyAtTheLimit) {
  EXPECT_TRUE(run(4500ms, {3, 4}).suspects.empty());
  const Liveness::News suspicion = run(1s, {3, 4});
  EXPECT_EQ((std::vector<int>{2}), ranks_of(suspicion.suspects));
  EXPECT_TRUE(suspicion.lost.empty());
  EXPECT_TRUE(run(4s, {3, 4}).lost.empty());
  const Liveness::News news = run(1s, {3, 4});
  ASSERT_EQ((std::vector<int>{2}), ranks_of(news.lost));
  EXPECT_EQ("was not heard for 10 s", news.lost[0].cause);
  EXPECT_TRUE(run(60s, {3, 4}).lost.empty()) << "each is lost once";
}

TEST_F(LivenessTest, TheLowestRankOfASilentHostIsFirstThoughItWasHeardLast) {
  liveness_.heard(2, time_ + 900ms);
  const Liveness::News news = run(10s, {4});
  EXPECT_EQ((std::vector<int>{2, 3}), ranks_of(news.lost));
}

TEST_F(LivenessTest, AfterBeingStoppedItselfItBlamesNobody) {
  time_ += 1h;
  EXPECT_TRUE(liveness_.tick(time_).lost.empty());
  EXPECT_TRUE(run(9s, {}).lost.empty());
  EXPECT_EQ((std::vector<int>{2, 3, 4}), ranks_of(run(2s, {}).lost));
}

TEST_F(LivenessTest, WhoHasLeftIsNotMissed) {
  liveness_.forget(4);
  EXPECT_TRUE(run(60s, {2, 3}).lost.empty());
}

}  // namespace
}  // namespace hvd::transport
