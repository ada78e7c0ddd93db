// SPDX-License-Identifier: Apache-2.0
// A rank answers the others whatever it did last, and every operation ends by itself.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "unit/context/ranks.h"
#include "unit/time_scale.h"

namespace hvd::testing {
namespace {

// What operations in flight tell of their ends; outlives them.
struct Ends {
  std::atomic<int> count{0}, shut_down{0};
};

void count_end(void* ends, hvd_handle*, hvd_status status) {
  auto* counted = static_cast<Ends*>(ends);
  if (status == HVD_ERR_SHUT_DOWN) ++counted->shut_down;
  ++counted->count;
}

// All threads that start meanwhile have one core, on which who drives changes in the most unlikely
// moments.
class OneCore {
 public:
  OneCore() {
    cpu_set_t one;
    CPU_ZERO(&one);
    EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &one);
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~OneCore() { sched_setaffinity(0, sizeof before_, &before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_;
};

// Rank 0 decides when an operation of rank 1 that it takes no part in has waited too long. If it
// were deaf, rank 1 would take it for lost a second later. It was, once in some thousand rounds.
TEST(Waking, ARankThatHasEndedItsWaitHearsQuestions) {
  constexpr int kRounds = 500;
  const OneCore one_core;
  std::atomic<int> asked{0};
  const auto play = [&asked](Job& job, int round, unsigned pause) {
    hvd_handle* handle = nullptr;
    std::vector<float> together(20'000, 1.0f), alone(1, 1.0f);
    ASSERT_EQ(job.start_sum(together, named("together"), &handle).status, HVD_OK);
    ::usleep(pause);
    ASSERT_EQ(Job::wait(handle).status, HVD_OK);
    if (job.rank() == 0) {
      while (asked <= round && !::testing::Test::HasFailure()) std::this_thread::yield();
      return;
    }
    hvd_op_options options = named("alone");
    options.timeout_ns = kSecond / 500;
    ASSERT_EQ(job.start_sum(alone, options, &handle).status, HVD_OK);
    const Failure failure = Job::wait(handle);
    EXPECT_EQ(failure.status, HVD_ERR_TIMEOUT) << "round " << round << ": " << failure.message;
    ++asked;
  };
  const auto settings = [](int) { return Job::Settings{{"spin_us", "1000"}}; };
  run_ranks(
      2,
      [&](Job& job) {
        std::mt19937 random(static_cast<unsigned>(job.rank()));
        for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round)
          play(job, round, random() % 20);
      },
      settings);
}

// Starts unnamed sums, and says how they end in `ends`.
void start_unnamed(Job& job, std::vector<std::vector<float>>& data, Ends& ends) {
  for (std::vector<float>& one : data) {
    hvd_handle* handle = nullptr;
    ASSERT_EQ(job.start_sum(one, HVD_OP_OPTIONS_INIT, &handle).status, HVD_OK);
    ASSERT_EQ(hvd_handle_then(handle, count_end, &ends, nullptr), HVD_OK);
    hvd_handle_free(handle);
  }
}

// Rank 1 shuts down with operations in flight of which rank 0 knows nothing; all of them must end,
// and the one waited for too.
void shut_down_with(int operations, bool joining) {
  Ends ends;
  std::vector<std::vector<float>> data(static_cast<size_t>(operations),
                                       std::vector<float>(1, 1.0f));
  const std::string url = fresh_url();
  Job leaver, other_rank;
  std::thread other([&] { ASSERT_EQ(other_rank.open(url, 0, 2).status, HVD_OK); });
  ASSERT_EQ(leaver.open(url, 1, 2).status, HVD_OK);
  other.join();
  hvd_handle* handle = nullptr;
  if (joining) {
    ASSERT_EQ(hvd_join_async(leaver.get(), nullptr, &handle, nullptr), HVD_OK);
    ASSERT_EQ(hvd_handle_then(handle, count_end, &ends, nullptr), HVD_OK);
    hvd_handle_free(handle);
  }
  start_unnamed(leaver, data, ends);
  std::vector<float> last(1, 1.0f);
  ASSERT_EQ(leaver.start_sum(last, HVD_OP_OPTIONS_INIT, &handle).status, HVD_OK);
  std::thread waiter([&] {
    const Failure failure = Job::wait(handle, -1);
    EXPECT_EQ(failure.status, HVD_ERR_SHUT_DOWN) << failure.message;
  });
  EXPECT_EQ(hvd_shutdown(leaver.get(), kSecond, nullptr), HVD_OK);
  waiter.join();
  EXPECT_EQ(leaver.close().status, HVD_OK);
  EXPECT_EQ(ends.count, operations + joining);
  EXPECT_EQ(ends.shut_down, operations + joining);
  static_cast<void>(other_rank.close());  // may have heard already that rank 1 left
}

// Unnamed operations take 256 places in turn; those beyond wait for one.
TEST(Waking, ShutdownEndsThoseThatWaitForTheirPlace) { shut_down_with(300, false); }

TEST(Waking, ShutdownEndsThoseBehindAJoin) { shut_down_with(3, true); }

// What is held back to be planned together with what comes is held as long as asked, not until the
// engine looks by itself.
TEST(Waking, CycleTimeIsKept) {
  constexpr int kRounds = 21;
  const auto settings = [](int) { return Job::Settings{{"cycle_time", "5"}}; };
  run_ranks(
      2,
      [](Job& job) {
        using Clock = std::chrono::steady_clock;
        std::vector<Clock::duration> taken;
        std::vector<float> data(1 << 14, 1.0f);
        for (int round = 0; round < kRounds; ++round) {
          const Clock::time_point start = Clock::now();
          ASSERT_EQ(job.sum(data, "held").status, HVD_OK);
          taken.push_back(Clock::now() - start);
        }
        // The median, because anything may stand still for once.
        std::nth_element(taken.begin(), taken.begin() + kRounds / 2, taken.end());
        EXPECT_GE(taken[kRounds / 2], std::chrono::milliseconds(4));
        EXPECT_LT(taken[kRounds / 2], hvd::testing::scaled(std::chrono::milliseconds(50)));
      },
      settings);
}

}  // namespace
}  // namespace hvd::testing
