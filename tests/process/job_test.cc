// SPDX-License-Identifier: Apache-2.0
// Whole jobs of processes. The ranks check their results themselves (victim_parts.cc).
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "process/team.h"

namespace hvd::testing {
namespace {

TEST(Job, StoppedRankIsNamedAndComesBack) {
  constexpr int kStopped = 2;
  Team team("stop", 3, {"option:op_timeout=3", "stopped=2"});
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(team[rank].expect("ready"), "ready") << team[rank].said();
  team[kStopped].signal(SIGSTOP);
  for (int rank = 0; rank < 3; ++rank) team[rank].order("go");
  for (const int rank : {0, 1}) EXPECT_EQ(team[rank].expect("timed out", 15'000'000'000), "timed out") << team[rank].said();
  team[kStopped].signal(SIGCONT);
  EXPECT_EQ(team[kStopped].expect("timed out", 15'000'000'000), "timed out") << team[kStopped].said();
  for (int rank = 0; rank < 3; ++rank) team[rank].order("on");
  team.expect_good();
}

TEST(Job, OneRankLeavesWhileOthersNeedIt) {
  for (const int leaver : {0, 1, 3}) {
    SCOPED_TRACE("rank " + std::to_string(leaver));
    Team team("leave", 4, {"leaver=" + std::to_string(leaver)});
    team.expect_good();
  }
}

TEST(Job, IdleRanksSleep) {
  Team team("idle", 4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(team[rank].expect("switches"), "switches 0") << "rank " << rank << ": " << team[rank].said();
  }
  // Only now: a rank that has measured and goes on wakes those that still measure.
  for (int rank = 0; rank < 4; ++rank) team[rank].order("end");
  team.expect_good();
}

TEST(Job, AfterAMismatchTheNextOneWorks) { Team("mismatch", 3).expect_good(); }

TEST(Job, AnOperationsOwnTimeLimit) {
  Team team("timeout", 3);
  for (int round = 0; round < 3; ++round) {
    int64_t longest = 0;
    for (const int rank : {0, 2}) {
      const std::string line = team[rank].expect("timed out ", 20'000'000'000);
      ASSERT_NE(line, "") << "rank " << rank << ": " << team[rank].said();
      longest = std::max<int64_t>(longest, std::atoll(line.c_str() + 10));
    }
    // The first limit that passes ends it for all, so ranks that submitted a little later wait a little less.
    EXPECT_GE(longest, 990'000'000);
    EXPECT_LT(longest, 10'000'000'000);
    team[1].order("come");
  }
  team.expect_good();
}

TEST(Job, StallsAreReportedInTime) {
  Team team("stall", 3, {"option:stall_check_time_seconds=1"});
  for (const int rank : {0, 1}) EXPECT_EQ(team[rank].expect("warned", 15'000'000'000), "warned") << team[rank].said();
  team[2].order("come");
  team.expect_good();
}

TEST(Job, TwoSetsAndTheWorldAtOnce) { Team("sets", 4).expect_good(); }

TEST(Job, SetsComeAndGo) { Team("churn", 3).expect_good(); }

TEST(Job, TwoHosts) {
  Team team("hosts", 4, {},
            {{"option:hostname=127.0.0.1"},
             {"option:hostname=127.0.0.1"},
             {"option:hostname=127.0.0.2"},
             {"option:hostname=127.0.0.2"}});
  team.expect_good(60'000'000'000);
}

long available_kib() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) return std::atol(line.c_str() + 13);
  }
  return 0;
}

TEST(Job, MoreElementsThan32BitsCount) {
  const long available = available_kib();
  if (available <= 12L << 20) {
    GTEST_SKIP() << "needs 12 GiB of available memory, there are " << (available >> 20);
  }
  if (HVD_SANITIZED) GTEST_SKIP() << "takes too long with a sanitizer";
  Team("huge", 2).expect_good(150'000'000'000);
}

}  // namespace
}  // namespace hvd::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::signal(SIGPIPE, SIG_IGN);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s VICTIM\n", argv[0]);
    return 2;
  }
  hvd::testing::victim_path() = argv[1];
  return RUN_ALL_TESTS();
}
