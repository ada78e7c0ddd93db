// SPDX-License-Identifier: Apache-2.0
// faults [--runs N | --all] [--jobs N] [--calls memory|system|NAME] [--over TRANSPORT] [--at N]
// [--seed N]
//
// One rank of a small job has its n-th call fail, for every n or for some of them. Every rank must
// end in time with errors or right results, and each process must have let go of all it had.
// `--jobs`: how many such jobs at once, which mostly wait.
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "faults/fault.h"
#include "faults/scenario.h"

namespace hvd::testing {
namespace {

// Longer than all the times that the ranks are given for what they do.
constexpr int64_t kLimit = 60'000'000'000;
constexpr int kLeaked = 100;
constexpr long kPiecesOfTheSystem = 8;  // what libraries keep for next time

struct Transport {
  const char* name;
  const char* rendezvous;
  int size;
  bool hosts;
};
constexpr Transport kTransports[] = {{"shared memory", "unix://", 2, false},
                                     {"TCP", "unix://", 2, true},
                                     {"threads", "mem://", 2, false}};

struct Trial {
  const Transport* transport;
  int victim;
  Fault fault;
};

int64_t monotonic_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

int entries_of(const char* folder) {
  DIR* const open = ::opendir(folder);
  if (open == nullptr) return -1;
  int count = 0;
  while (::readdir(open) != nullptr) ++count;
  ::closedir(open);
  return count;
}

struct Belongings {
  long pieces = 0;
  int descriptors = 0;
  int threads = 0;
};

Belongings belongings() {
  return {memory_pieces(), entries_of("/proc/self/fd"), entries_of("/proc/self/task")};
}

struct Rank {
  Scenario scenario;
  pthread_barrier_t* start = nullptr;
  pthread_t thread{};
  int step = 0;
};

void* play_rank(void* data) {
  Rank& rank = *static_cast<Rank*>(data);
  ::pthread_barrier_wait(rank.start);
  rank.step = play(rank.scenario);
  return nullptr;
}

// One job as this process has part in it: its own rank, or all of them as threads. What the test
// itself needs does not fail.
int play_here(const Transport& transport, int rank, const std::string& name, bool on_hosts,
              const Fault& fault, bool may_fail) {
  const std::string rendezvous = transport.rendezvous + name;
  std::vector<Rank> ranks;
  std::vector<std::string> hosts;
  for (int i = 0; i < transport.size; ++i) hosts.push_back("127.0.0." + std::to_string(i + 1));
  for (int i = 0; i < transport.size; ++i) {
    if (rank >= 0 && i != rank) continue;
    const char* const host = on_hosts ? hosts[static_cast<size_t>(i)].c_str() : nullptr;
    ranks.push_back({.scenario = {rendezvous.c_str(), host, i, transport.size, may_fail}});
  }
  if (ranks.size() == 1) {
    arm(fault);
    ranks[0].step = play(ranks[0].scenario);
    disarm();
    return ranks[0].step;
  }
  pthread_barrier_t start;
  ::pthread_barrier_init(&start, nullptr, static_cast<unsigned>(ranks.size()) + 1);
  for (Rank& each : ranks) {
    each.start = &start;
    if (::pthread_create(&each.thread, nullptr, play_rank, &each) != 0) return 99;
  }
  arm(fault);
  ::pthread_barrier_wait(&start);
  int worst = 0;
  for (const Rank& each : ranks) {
    ::pthread_join(each.thread, nullptr);
    worst = std::max(worst, each.step);
  }
  disarm();
  ::pthread_barrier_destroy(&start);
  return worst;
}

// In a process of its own. The first job shows what the libraries keep; in the second the call
// fails. `counts_to`: where the victim writes how often each call was made.
int live(const Trial& trial, int rank, const std::string& name, int counts_to) {
  const bool victim = rank < 0 || rank == trial.victim;
  // What two hosts need may be needed by ranks of one, too: a rank that is not told where it is
  // takes itself for another host.
  if (const int step = play_here(*trial.transport, rank, name + ".before", true, {}, false);
      step != 0)
    return step;
  const Belongings before = belongings();
  const int step = play_here(*trial.transport, rank, name, trial.transport->hosts,
                             victim ? trial.fault : Fault{}, trial.fault.at > 0);
  for (int number = 0; victim && counts_to >= 0 && number < call_count(); ++number) {
    const long count = calls_seen(number);
    if (::write(counts_to, &count, sizeof count) != sizeof count) return 98;
  }
  if (step != 0) return step;
  // Threads that have been joined may be seen for a moment.
  Belongings after = belongings();
  for (int look = 0; look < 200 && after.threads > before.threads; ++look, after = belongings())
    ::usleep(10'000);
  const bool leaked = after.pieces > before.pieces + kPiecesOfTheSystem ||
                      after.descriptors > before.descriptors || after.threads > before.threads;
  if (!leaked) return 0;
  std::fprintf(stderr,
               "rank %d kept memory: %ld pieces, before %ld; descriptors: %d, before %d; threads: "
               "%d, before %d\n",
               rank, after.pieces, before.pieces, after.descriptors, before.descriptors,
               after.threads, before.threads);
  return kLeaked;
}

// Empty: all is well.
std::string outcome_of(pid_t pid, int64_t until) {
  int status = 0;
  useconds_t pause = 200;
  while (::waitpid(pid, &status, WNOHANG) != pid) {
    if (monotonic_ns() > until) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return "hangs";
    }
    ::usleep(pause);
    pause = std::min<useconds_t>(2 * pause, 20'000);
  }
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) == kLeaked) return "leaks";
  return WEXITSTATUS(status) == 0 ? "" : "fails in step " + std::to_string(WEXITSTATUS(status));
}

// What went wrong, rank by rank; empty: nothing. `counts`: of calls, by number.
std::string try_once(const Trial& trial, std::vector<long>* counts = nullptr) {
  static int serial = 0;
  const std::string name = "faults-" + std::to_string(::getpid()) + "-" + std::to_string(serial++);
  int pipe[2] = {-1, -1};
  if (counts != nullptr && ::pipe(pipe) != 0) return "no pipe";
  const bool threads = std::strcmp(trial.transport->rendezvous, "mem://") == 0;
  std::vector<pid_t> pids;
  for (int rank = threads ? -1 : 0; rank < (threads ? 0 : trial.transport->size); ++rank) {
    pids.push_back(::fork());
    if (pids.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(live(trial, rank, name, pipe[1]));
  }
  std::string wrong;
  const int64_t until = monotonic_ns() + kLimit;
  for (size_t i = 0; i < pids.size(); ++i) {
    const std::string outcome = outcome_of(pids[i], until);
    if (!outcome.empty())
      wrong += (threads ? " a rank " : " rank " + std::to_string(i) + " ") + outcome + ";";
  }
  if (counts == nullptr) return wrong;
  ::close(pipe[1]);
  for (long& count : *counts) {
    if (::read(pipe[0], &count, sizeof count) != sizeof count) wrong += " calls were not counted;";
  }
  ::close(pipe[0]);
  return wrong;
}

struct Wishes {
  std::string calls = "all";
  std::string over;  // empty: every transport
  long at = 0;       // 0: every call
};

// Every way in which this call can fail.
void add_trials(const Transport& transport, int victim, int number, long at,
                std::vector<Trial>& trials) {
  for (const int* error = call(number).errors; *error != 0; ++error) {
    trials.push_back({&transport, victim, {number, *error, at, false}});
    // What is only to be tried again is no lasting state of a system.
    const bool once = *error == EINTR || *error == EAGAIN || *error == ECONNABORTED;
    if (!once) trials.push_back({&transport, victim, {number, *error, at, true}});
  }
}

std::vector<Trial> all_trials(const Wishes& wishes) {
  const std::string& calls = wishes.calls;
  std::vector<Trial> trials;
  for (const Transport& transport : kTransports) {
    if (!wishes.over.empty() && wishes.over != transport.name) continue;
    for (const int victim : {0, transport.size - 1}) {
      if (victim != 0 && std::strcmp(transport.rendezvous, "mem://") == 0) continue;
      std::vector<long> counts(static_cast<size_t>(call_count()));
      if (const std::string wrong = try_once({&transport, victim, {}}, &counts); !wrong.empty()) {
        std::fprintf(stderr, "over %s, nothing failing:%s\n", transport.name, wrong.c_str());
        std::exit(1);
      }
      for (int number = 0; number < call_count(); ++number) {
        const char* const kind = number == kAllocation ? "memory" : "system";
        if (calls != "all" && calls != call(number).name && calls != kind) continue;
        for (long at = 1; at <= counts[static_cast<size_t>(number)]; ++at) {
          if (wishes.at == 0 || wishes.at == at) add_trials(transport, victim, number, at, trials);
        }
      }
    }
  }
  return trials;
}

// How many of the trials went wrong: of every `step`-th from `first` on. The first job says now and
// then how far all are.
size_t try_some(const std::vector<Trial>& trials, size_t first, size_t step) {
  constexpr auto kSilence = std::chrono::seconds(30);
  size_t wrong_ones = 0;
  auto said = std::chrono::steady_clock::now();
  for (size_t i = first; i < trials.size(); i += step) {
    if (first == 0 && std::chrono::steady_clock::now() - said > kSilence) {
      said = std::chrono::steady_clock::now();
      std::fprintf(stderr, "about %zu of %zu failures tried\n", i, trials.size());
    }
    const Trial& trial = trials[i];
    const std::string wrong = try_once(trial);
    if (wrong.empty()) continue;
    ++wrong_ones;
    std::fprintf(stderr, "over %s, %s call %ld of rank %d fails%s (%s):%s\n", trial.transport->name,
                 call(trial.fault.call).name, trial.fault.at, trial.victim,
                 trial.fault.lasting ? " and all after it" : "",
                 ::strerrorname_np(trial.fault.error), wrong.c_str());
  }
  return wrong_ones;
}

size_t try_all(const std::vector<Trial>& trials, size_t jobs) {
  int pipe[2];
  if (::pipe(pipe) != 0) return trials.size();
  for (size_t job = 0; job < jobs; ++job) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const size_t wrong = try_some(trials, job, jobs);
    ::_exit(::write(pipe[1], &wrong, sizeof wrong) == sizeof wrong ? 0 : 1);
  }
  ::close(pipe[1]);
  size_t wrong_ones = 0;
  for (size_t job = 0; job < jobs; ++job) {
    size_t wrong = 0;
    wrong_ones += ::read(pipe[0], &wrong, sizeof wrong) == sizeof wrong ? wrong : trials.size();
  }
  while (::wait(nullptr) > 0) continue;
  return wrong_ones;
}

struct Arguments {
  size_t runs = 150;
  size_t jobs = 1;
  Wishes wishes;
  unsigned seed = std::random_device{}();
};

// False for what is no argument of this program.
bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--all") {
      arguments.runs = SIZE_MAX;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    const unsigned long number = std::strtoul(value, nullptr, 10);
    if (name == "--runs")
      arguments.runs = number;
    else if (name == "--jobs")
      arguments.jobs = std::max(1UL, number);
    else if (name == "--calls")
      arguments.wishes.calls = value;
    else if (name == "--over")
      arguments.wishes.over = value;
    else if (name == "--at")
      arguments.wishes.at = static_cast<long>(number);
    else if (name == "--seed")
      arguments.seed = static_cast<unsigned>(number);
    else
      return false;
  }
  return true;
}

int run(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "faults [--runs N | --all] [--jobs N] [--calls memory|system|NAME] [--over "
                 "TRANSPORT] [--at N] [--seed N]\n");
    return 2;
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(SIGPIPE, SIG_IGN);
  std::vector<Trial> trials = all_trials(arguments.wishes);
  const size_t possible = trials.size();
  std::mt19937 random(arguments.seed);
  std::shuffle(trials.begin(), trials.end(), random);
  trials.resize(std::min(trials.size(), arguments.runs));
  const size_t wrong_ones = try_all(trials, arguments.jobs);
  std::printf("%zu of %zu failures tried (seed %u), %zu went wrong\n", trials.size(), possible,
              arguments.seed, wrong_ones);
  return wrong_ones == 0 && !trials.empty() ? 0 : 1;
}

}  // namespace
}  // namespace hvd::testing

int main(int argc, char** argv) { return hvd::testing::run(argc, argv); }
