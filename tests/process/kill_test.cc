// SPDX-License-Identifier: Apache-2.0
// Ranks that die in the middle of things: every survivor learns who, where and how, soon, and can
// go on with the others.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>

#include "hvd/hvd.h"
#include "process/team.h"
#include "unit/time_scale.h"

namespace hvd::testing {
namespace {

// Every survivor knows by then, and nearly always much sooner: a process may stand still on a
// loaded machine. A rank that merely falls silent is missed after 10 s only.
const int64_t kLimit = scaled(std::chrono::seconds(5)).count();
const int64_t kSoon = scaled(std::chrono::seconds(1)).count();

struct Tally {
  int ends = 0;
  int late = 0;  // ends of which somebody learned later than kSoon
  int reports = 0;
  int64_t worst = 0;
  int told = 0;
  int told_differently = 0;
};

Tally& tally() {
  static Tally all;
  return all;
}

// "failed <ns> wait <status> <rank> <message>" or "status <ns> <status> <rank> <message>"
struct Report {
  int64_t at = 0;
  int status = 0;
  int rank = -1;
  std::string message;
};

Report read_report(const std::string& line) {
  std::istringstream in(line);
  std::string word;
  Report report;
  in >> word >> report.at;
  if (word == "failed") in >> word;
  in >> report.status >> report.rank;
  std::getline(in >> std::ws, report.message);
  return report;
}

struct Dead {
  std::vector<int> ranks;
  std::vector<pid_t> pids;
  std::string cause;
  int64_t at = 0;
};

void check_report(const Report& report, const Dead& dead, const std::string& line) {
  EXPECT_EQ(report.status, HVD_ERR_PEER_LOST) << line;
  const auto found = std::find(dead.ranks.begin(), dead.ranks.end(), report.rank);
  ASSERT_NE(found, dead.ranks.end()) << line;
  const pid_t pid = dead.pids[static_cast<size_t>(found - dead.ranks.begin())];
  const std::string who = "rank " + std::to_string(report.rank) + " (host ";
  const std::string how = ", pid " + std::to_string(pid) + ") " + dead.cause;
  const size_t at = report.message.find(who);
  EXPECT_NE(at, std::string::npos) << line;
  EXPECT_NE(report.message.find(how, at), std::string::npos) << line << "\nexpected ..." << how;
  EXPECT_GT(report.message.find(how), at + who.size()) << "no host: " << line;
  EXPECT_LT(report.at - dead.at, kLimit) << line;
  ++tally().reports;
}

// Of one death all survivors tell the same, to the letter.
void check_texts(Team& team, const std::vector<int>& survivors,
                 const std::vector<std::string>& texts) {
  ++tally().told;
  for (size_t i = 1; i < texts.size(); ++i) {
    if (texts[i] == texts[0]) continue;
    ++tally().told_differently;
    ADD_FAILURE() << "rank " << survivors[0] << ": " << texts[0] << "\nrank " << survivors[i]
                  << ": " << texts[i] << "\nof " << team.size() << " ranks";
    return;
  }
}

// All survivors report the same loss, then do one correct sum among themselves.
void check_survivors(Team& team, const Dead& dead) {
  std::vector<int> survivors;
  for (int rank = 0; rank < team.size(); ++rank) {
    if (std::count(dead.ranks.begin(), dead.ranks.end(), rank) == 0) survivors.push_back(rank);
  }
  int64_t slowest = 0;
  std::vector<std::string> texts;
  for (const int rank : survivors) {
    const std::vector<std::string> lines =
        team[rank].until("failed", "status", kLimit + 10'000'000'000);
    ASSERT_GE(lines.size(), 2u) << "rank " << rank << " reported no failed operation; it said "
                                << team[rank].said();
    for (const std::string& line : lines) {
      check_report(read_report(line), dead, line);
      slowest = std::max(slowest, read_report(line).at - dead.at);
    }
    texts.push_back(read_report(lines.back()).message);
  }
  if (dead.ranks.size() == 1) check_texts(team, survivors, texts);
  ++tally().ends;
  if (slowest > kSoon) ++tally().late;
  tally().worst = std::max(tally().worst, slowest);
  Folder again;
  for (size_t i = 0; i < survivors.size(); ++i) {
    team[survivors[i]].order("again " + std::to_string(i) + " " + std::to_string(survivors.size()) +
                             " " + again.path());
  }
  for (const int rank : survivors) {
    EXPECT_EQ(team[rank].expect("good"), "good") << "rank " << rank << ": " << team[rank].said();
    EXPECT_EQ(team[rank].wait(), 0) << "rank " << rank;
  }
}

// At most 1 % of the ends since the tally was new, or two, were told late.
void expect_soon() {
  EXPECT_LE(tally().late, std::max(2, tally().ends / 100))
      << "of " << tally().ends << " ends; worst detection "
      << static_cast<double>(tally().worst) / 1e6 << " ms";
}

void expect_streaming(Team& team) {
  for (int rank = 0; rank < team.size(); ++rank) {
    ASSERT_EQ(team[rank].expect("streaming", 30'000'000'000), "streaming")
        << "rank " << rank << ": " << team[rank].said();
  }
}

const std::vector<std::string> kKinds = {"allreduce",     "allreduce_large", "grouped",
                                         "allgather",     "broadcast",       "alltoall",
                                         "reducescatter", "barrier",         "join"};

int kills_wanted() {
  const char* text = std::getenv("HVD_KILLS");
  return text != nullptr ? std::atoi(text) : 207;
}

// Which of several hosts, played on this machine, each rank is on; empty: all on this one.
using Hosts = std::vector<int>;

std::vector<std::vector<std::string>> arguments_of(const Hosts& hosts) {
  std::vector<std::vector<std::string>> own;
  for (const int host : hosts) own.push_back({"option:hostname=127.0.0." + std::to_string(host)});
  return own;
}

void kill_one(int size, const std::string& kind, std::mt19937& random, const Hosts& hosts = {}) {
  Team team("stream", size, {"kind=" + kind}, arguments_of(hosts));
  expect_streaming(team);
  if (::testing::Test::HasFatalFailure()) return;
  const int rank = static_cast<int>(random() % static_cast<unsigned>(size));
  ::usleep(random() % 8000);
  // From another host alone nobody sees how a process ended.
  const bool seen =
      hosts.empty() || std::count(hosts.begin(), hosts.end(), hosts[static_cast<size_t>(rank)]) > 1;
  const std::string cause = seen ? "was killed by signal 9 (SIGKILL)" : "closed its connection";
  Dead dead{{rank}, {team[rank].pid()}, cause, monotonic_ns()};
  team[rank].signal(SIGKILL);
  if (random() % 2 == 0) team[rank].wait();  // as a launcher would; otherwise it stays a zombie
  check_survivors(team, dead);
}

TEST(Kill, OneOfManyInEveryKindOfCollective) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const std::vector<std::string> before = shared_memory_files();
  const int64_t start = monotonic_ns();
  const int kills = kills_wanted();
  tally() = {};
  for (int i = 0; i < kills; ++i) {
    const std::string& kind = kKinds[static_cast<size_t>(i) % kKinds.size()];
    const int size = i / static_cast<int>(kKinds.size()) % 4 == 3 ? 2 : 4;
    SCOPED_TRACE("kill " + std::to_string(i) + " in " + kind + " of " + std::to_string(size) +
                 " ranks, seed " + std::to_string(seed));
    kill_one(size, kind, random);
    if (HasFailure()) break;
  }
  std::printf("%d kills, %d reports, worst detection %.1f ms, %.1f s in all\n", tally().ends,
              tally().reports, static_cast<double>(tally().worst) / 1e6,
              static_cast<double>(monotonic_ns() - start) / 1e9);
  expect_soon();
  EXPECT_EQ(shared_memory_files(), before);
}

// What is seen from afar, a closed connection, is not what the victim's neighbours see: all are to
// tell the latter.
TEST(Kill, OneOfManyOnSeveralHosts) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const std::vector<Hosts> layouts = {{1, 1, 2, 2}, {1, 2, 1, 2}, {1, 1, 1, 2},
                                      {1, 2, 3},    {1, 1, 2},    {1, 2}};
  const int kills = std::max(1, kills_wanted() / 4);
  tally() = {};
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    const std::string& kind = kKinds[random() % kKinds.size()];
    const Hosts& hosts = layouts[static_cast<size_t>(i) % layouts.size()];
    SCOPED_TRACE("kill " + std::to_string(i) + " in " + kind + " of layout " +
                 std::to_string(static_cast<size_t>(i) % layouts.size()) + ", seed " +
                 std::to_string(seed));
    kill_one(static_cast<int>(hosts.size()), kind, random, hosts);
  }
  std::printf("%d kills, %d told differently, worst detection %.1f ms\n", tally().told,
              tally().told_differently, static_cast<double>(tally().worst) / 1e6);
  expect_soon();
}

TEST(Kill, TwoOfFourAtOnce) {
  std::mt19937 random(7);
  tally() = {};
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    const std::string& kind = kKinds[static_cast<size_t>(round) % kKinds.size()];
    SCOPED_TRACE("round " + std::to_string(round) + " in " + kind);
    Team team("stream", 4, {"kind=" + kind});
    expect_streaming(team);
    const int first = static_cast<int>(random() % 4),
              second = (first + 1 + static_cast<int>(random() % 3)) % 4;
    Dead dead{{first, second},
              {team[first].pid(), team[second].pid()},
              "was killed by signal 9 (SIGKILL)",
              monotonic_ns()};
    team[first].signal(SIGKILL);
    team[second].signal(SIGKILL);
    check_survivors(team, dead);
  }
  expect_soon();
}

void end_with(const std::string& end, const std::string& cause, int doomed) {
  SCOPED_TRACE(end + " of rank " + std::to_string(doomed));
  std::vector<std::vector<std::string>> own(3);
  own[static_cast<size_t>(doomed)] = {"end=" + end, "after_ms=30"};
  Team team("stream", 3, {"kind=allreduce"}, own);
  const std::string ending = team[doomed].expect("ending ");
  ASSERT_NE(ending, "") << team[doomed].said();
  check_survivors(team, {{doomed}, {team[doomed].pid()}, cause, std::atoll(ending.c_str() + 7)});
}

TEST(End, ExitCode3) {
  for (const int rank : {0, 2}) end_with("exit3", "exited with code 3 without shutting down", rank);
}
TEST(End, ExitCode0WithoutShutdown) {
  for (const int rank : {0, 2}) end_with("exit0", "exited with code 0 without shutting down", rank);
}
TEST(End, Abort) { end_with("abort", "was killed by signal 6 (SIGABRT)", 1); }
TEST(End, SegmentationFault) { end_with("segv", "was killed by signal 11 (SIGSEGV)", 1); }
TEST(End, ClosesEveryDescriptor) {
  for (const int rank : {0, 1}) end_with("close", "closed its connection", rank);
}

void end_with_a_child(int doomed, const Hosts& hosts) {
  std::vector<std::vector<std::string>> own = arguments_of(hosts);
  own.resize(2);
  own[static_cast<size_t>(doomed)].push_back("end=fork");
  Team team("stream", 2, {"kind=allreduce"}, own);
  const std::string line = team[doomed].expect("child ");
  ASSERT_NE(line, "") << team[doomed].said();
  const pid_t child = std::atoi(line.c_str() + 6);
  expect_streaming(team);
  const std::string cause =
      hosts.empty() ? "was killed by signal 9 (SIGKILL)" : "closed its connection";
  Dead dead{{doomed}, {team[doomed].pid()}, cause, monotonic_ns()};
  team[doomed].signal(SIGKILL);
  check_survivors(team, dead);
  EXPECT_EQ(::kill(child, 0), 0) << "the child was to live on";
  ::kill(child, SIGKILL);
}

TEST(End, AChildThatLivesOnHidesNothing) {
  for (int doomed = 0; doomed < 2; ++doomed) end_with_a_child(doomed, {});
}
TEST(End, AChildThatLivesOnKeepsNoConnectionBetweenHosts) {
  for (int doomed = 0; doomed < 2; ++doomed) end_with_a_child(doomed, {1, 2});
}

// Kills a rank while all are still meeting. Those who had already met learn it as a loss, the
// others after 4 s at the latest, to which a loaded machine may add.
void kill_while_starting(int doomed, unsigned after_us, const Hosts& hosts) {
  SCOPED_TRACE("rank " + std::to_string(doomed) + " killed " + std::to_string(after_us) +
               " us after its start, hosts " + ::testing::PrintToString(hosts));
  Team team("init", 3, {"option:start_timeout=3"}, arguments_of(hosts));
  ASSERT_EQ(team[doomed].expect("starting"), "starting");
  ::usleep(after_us);
  const int64_t at = monotonic_ns();
  team[doomed].signal(SIGKILL);
  team[doomed].wait();
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == doomed) continue;
    std::string line;
    for (const std::string& said : team[rank].until("refused", "lost", 15'000'000'000)) line = said;
    if (line.empty()) line = team[rank].said();
    // Whoever gave up because of it is not to blame.
    const bool named = read_report("failed 0 " + line).rank == doomed;
    const bool missed =
        line.find("missing ranks " + std::to_string(doomed) + " of 3") != std::string::npos;
    EXPECT_TRUE(named || missed) << "rank " << rank << ": " << line;
    EXPECT_TRUE(line.rfind("refused -22", 0) == 0 || line.rfind("refused -60", 0) == 0 ||
                line.rfind("lost -60", 0) == 0)
        << "rank " << rank << ": " << line;
    EXPECT_LT(monotonic_ns() - at, 2 * kLimit) << "rank " << rank << ": " << line;
    EXPECT_EQ(team[rank].wait(), 0);
  }
}

TEST(Init, ARankIsKilledWhileAllMeet) {
  std::mt19937 random(11);
  const int kills = std::max(1, kills_wanted() / 20);
  for (int round = 0; round < kills && !HasFailure(); ++round)
    kill_while_starting(round % 3, random() % 6000, {});
}

// A rank that waits for the dead one on its own host is missed by the ranks of other hosts, and is
// not to blame.
TEST(Init, ARankIsKilledWhileSeveralHostsMeet) {
  std::mt19937 random(12);
  const std::vector<Hosts> layouts = {{1, 2, 2}, {1, 1, 2}, {1, 2, 3}, {1, 2, 1}};
  const int kills = std::max(1, kills_wanted() / 20);
  for (int round = 0; round < kills && !HasFailure(); ++round) {
    const Hosts& hosts = layouts[static_cast<size_t>(round / 3) % layouts.size()];
    kill_while_starting(round % 3, random() % 6000, hosts);
  }
}

TEST(Init, ARankThatNeverComesIsNamed) {
  for (const int absent : {0, 2}) {
    Team team("init", 3, {"option:start_timeout=3"}, {}, absent);
    for (int rank = 0; rank < 3; ++rank) {
      if (!team.present(rank)) continue;
      const std::string line = team[rank].expect("refused -22", 15'000'000'000);
      EXPECT_NE(line.find("missing ranks " + std::to_string(absent) + " of 3"), std::string::npos)
          << "rank " << rank << ": " << team[rank].said();
      EXPECT_EQ(team[rank].wait(), 0);
    }
  }
}

// All are told the limit, and what would be enough, instead of missing ranks or records that do not
// fit.
TEST(Init, TooFewDescriptorsAreNamedOnAllRanks) {
  for (const Hosts& hosts : {Hosts{}, Hosts{1, 2, 3, 3}}) {
    std::vector<std::vector<std::string>> own = arguments_of(hosts);
    own.resize(4);
    own[2].push_back("nofile=24");
    Team team("init", 4, {}, own);
    for (int rank = 0; rank < 4; ++rank) {
      const std::string line = team[rank].expect("refused -63 2", 15'000'000'000);
      EXPECT_NE(line.find("more descriptors and needs "), std::string::npos)
          << "rank " << rank << ": " << team[rank].said();
      EXPECT_NE(line.find("its limit is 24 (RLIMIT_NOFILE): ulimit -n "), std::string::npos)
          << team[rank].said();
      EXPECT_EQ(team[rank].wait(), 0);
    }
  }
}

TEST(Kill, AcrossHosts) {
  tally() = {};
  for (const int doomed : {0, 1, 2, 3}) {
    Team team("stream", 4, {"kind=allreduce_large"},
              {{"option:hostname=127.0.0.1"},
               {"option:hostname=127.0.0.1"},
               {"option:hostname=127.0.0.2"},
               {"option:hostname=127.0.0.2"}});
    expect_streaming(team);
    Dead dead{{doomed}, {team[doomed].pid()}, "", monotonic_ns()};
    team[doomed].signal(SIGKILL);
    check_survivors(team, dead);
  }
  expect_soon();
}

}  // namespace
}  // namespace hvd::testing
