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
  for (int rank = 0; rank < 3; ++rank)
    ASSERT_EQ(team[rank].expect("ready"), "ready") << team[rank].said();
  team[kStopped].signal(SIGSTOP);
  for (int rank = 0; rank < 3; ++rank) team[rank].order("go");
  for (const int rank : {0, 1})
    EXPECT_EQ(team[rank].expect("timed out", 15'000'000'000), "timed out") << team[rank].said();
  team[kStopped].signal(SIGCONT);
  EXPECT_EQ(team[kStopped].expect("timed out", 15'000'000'000), "timed out")
      << team[kStopped].said();
  for (int rank = 0; rank < 3; ++rank) team[rank].order("on");
  team.expect_good();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// One rank stands still. All others say so and give it up by themselves, also where it is the one
// that they would ask; when it wakes it learns that, although they are gone by then.
void freeze(int frozen, const std::vector<std::string>& limits, bool reports, bool abrupt) {
  SCOPED_TRACE("rank " + std::to_string(frozen) + ", " + limits[0] +
               (abrupt ? ", the others end without a word" : ""));
  std::vector<std::string> arguments = limits;
  std::vector<std::vector<std::string>> own(3);
  for (int rank = 0; rank < 3; ++rank) {
    if (abrupt && rank != frozen) own[static_cast<size_t>(rank)] = {"abrupt=1"};
  }
  Team team("frozen", 3, arguments, own);
  for (int rank = 0; rank < 3; ++rank)
    ASSERT_EQ(team[rank].expect("ready"), "ready") << team[rank].said();
  team[frozen].signal(SIGSTOP);
  const std::string who = "rank " + std::to_string(frozen);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank != frozen) team[rank].order("go");
  }
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == frozen) continue;
    const std::string warning = reports ? team[rank].expect("warned", 20'000'000'000) : "";
    EXPECT_TRUE(!reports || (has(warning, who) && has(warning, "does not answer")))
        << team[rank].said();
    const std::string end = team[rank].expect("ended", 20'000'000'000);
    EXPECT_TRUE(has(end, "allreduce \"t\": ") && has(end, who)) << team[rank].said();
    EXPECT_TRUE(has(end, frozen == 0 ? "ended -60 0 "
                         : reports   ? "ended -62 "
                                     : "ended -22 "))
        << end;
    const std::string later = team[rank].expect("refused", 20'000'000'000);
    EXPECT_TRUE(has(later, who)) << later;
    EXPECT_EQ(team[rank].wait(), abrupt ? 3 << 8 : 0);
  }
  team[frozen].signal(SIGCONT);
  team[frozen].order("go");
  // The first operation may still end well: the others had announced it, and what they sent is
  // taken in by and by.
  const std::string end = team[frozen].expect("ended", 20'000'000'000);
  const std::string later = team[frozen].expect("refused", 20'000'000'000);
  const std::string& told = has(end, "ended 0 ") ? later : end;
  EXPECT_TRUE(has(told, frozen == 0 ? " -60 0 " : " -62 ")) << team[frozen].said();
  EXPECT_TRUE(has(told, frozen == 0 ? "gave this rank up: rank 0" : who + " does not answer"))
      << told;
  EXPECT_TRUE(has(later, who)) << later;
  EXPECT_EQ(team[frozen].wait(), 0);
}

TEST(Job, AFrozenRankIsGivenUpAndLearnsIt) {
  const std::vector<std::string> stall = {"option:stall_check_time_seconds=1",
                                          "option:stall_shutdown_time_seconds=3"};
  for (const int frozen : {0, 2}) {
    freeze(frozen, stall, true, false);
    freeze(frozen, stall, true, true);
  }
  freeze(0, {"option:op_timeout=1"}, false, true);
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
    EXPECT_EQ(team[rank].expect("switches"), "switches 0")
        << "rank " << rank << ": " << team[rank].said();
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
    // The first limit that passes ends it for all, so ranks that submitted a little later wait a
    // little less.
    EXPECT_GE(longest, 990'000'000);
    EXPECT_LT(longest, 10'000'000'000);
    team[1].order("come");
  }
  team.expect_good();
}

TEST(Job, ALimitOfThreadsIsNamedByAll) {
  for (const int limited : {0, 1}) {
    Team team("limited", 2, {"limited=" + std::to_string(limited), "option:start_timeout=10"});
    for (int rank = 0; rank < 2; ++rank) {
      const std::string said = team[rank].expect("ended", 15'000'000'000);
      EXPECT_TRUE(has(said, "a rank needs up to 3 threads") && has(said, "this user may have 1 "))
          << "rank " << rank << ": " << said;
      EXPECT_EQ(team[rank].wait(), 0);
    }
  }
}

TEST(Job, StallsAreReportedInTime) {
  Team team("stall", 3, {"option:stall_check_time_seconds=1"});
  for (const int rank : {0, 1})
    EXPECT_EQ(team[rank].expect("warned", 15'000'000'000), "warned") << team[rank].said();
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
