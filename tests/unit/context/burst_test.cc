// SPDX-License-Identifier: Apache-2.0
// Bursts of operations that nobody waits for end by themselves, whoever else drives the engine
// meanwhile, announced one by one or together.
#include <algorithm>
#include <chrono>
#include <optional>
#include <random>

#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

// Far longer than a burst takes, also on a busy machine.
constexpr auto kDeadline = std::chrono::seconds(30);
constexpr size_t kLargestBurst = 40;

void pause_up_to(std::mt19937& random, unsigned microseconds) {
  if (const unsigned pause = random() % (microseconds + 1)) ::usleep(pause);
}

// What operations in flight refer to, by rank; outlives them also if a test gives up.
struct Burst {
  std::vector<float> data[kLargestBurst];
  std::atomic<size_t> ended{0};
};
Burst bursts[3];

// Ended operations, and how many of them.
size_t empty_queue(Job& job) {
  size_t count = 0;
  while (hvd_handle* handle = hvd_completions_pop(job.get())) {
    hvd_handle_free(handle);
    ++count;
  }
  return count;
}

class Together {
 public:
  explicit Together(Job& job) : job_(job) {
    EXPECT_EQ(hvd_burst_begin(job_.get(), nullptr), HVD_OK);
  }
  ~Together() { EXPECT_EQ(hvd_burst_end(job_.get(), nullptr), HVD_OK); }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

 private:
  Job& job_;
};

enum class Told { kByCallback, kByQueue };  // of the end of operations

// One burst; neither waits nor tests.
void send_burst(Job& job, size_t count, bool together, Told told, std::mt19937& random) {
  Burst& burst = bursts[job.rank()];
  burst.ended = 0;
  std::optional<Together> announced_together;
  if (together) announced_together.emplace(job);
  for (size_t i = 0; i < count; ++i) {
    burst.data[i].assign(1 + 300 * i, 1.0f);
    hvd_handle* handle = nullptr;
    ASSERT_EQ(
        job.start_sum(burst.data[i], named(("burst" + std::to_string(i)).c_str()), &handle).status,
        HVD_OK);
    const auto count_up = [](void* counter, hvd_handle*, hvd_status status) {
      EXPECT_EQ(status, HVD_OK);
      ++*static_cast<std::atomic<size_t>*>(counter);
    };
    if (told == Told::kByCallback) {
      ASSERT_EQ(hvd_handle_then(handle, count_up, &burst.ended, nullptr), HVD_OK);
    }
    hvd_handle_free(handle);
    if (random() % 8 == 0) pause_up_to(random, 50);
  }
  announced_together.reset();
  // Looks all the time, so that the next burst comes while the engine's thread is about to fall
  // asleep.
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (burst.ended < count && std::chrono::steady_clock::now() < end) {
    if (told == Told::kByQueue) burst.ended += empty_queue(job);
    std::this_thread::yield();
  }
  ASSERT_EQ(burst.ended, count) << "after " << kDeadline.count() << " s";
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(burst.data[i],
              std::vector<float>(burst.data[i].size(), static_cast<float>(job.size())));
  }
}

void send_bursts(Job& job, int rounds, Told told) {
  // the sizes are the same on all ranks
  std::mt19937 sizes(7), pauses(static_cast<unsigned>(job.rank()));
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    // Who has waited at once is expected to do so again.
    if (told == Told::kByCallback && round % 4 == 0) {
      ASSERT_EQ(job.barrier("round").status, HVD_OK);
    }
    send_burst(job, 1 + sizes() % kLargestBurst, (round + job.rank()) % 3 != 0, told, pauses);
    if (round % 2 == 0) pause_up_to(pauses, 100);
  }
}

void send_bursts_beside_a_waiter(Job& job, int rounds) {
  std::thread waiter([&] {
    std::mt19937 random(static_cast<unsigned>(job.rank()) + 100);
    for (int round = 0; round < 4 * rounds; ++round) {
      std::vector<float> data(1 + static_cast<size_t>(round) % 5000, 1.0f);
      ASSERT_EQ(job.sum(data, "waited").status, HVD_OK);
      pause_up_to(random, 500);
    }
  });
  send_bursts(job, rounds, Told::kByCallback);
  waiter.join();
}

TEST(Burst, NobodyWaits) {
  run_ranks(3, [](Job& job) { send_bursts(job, 100, Told::kByCallback); });
}

TEST(Burst, AnotherThreadWaitsForItsOwn) {
  run_ranks(2, [](Job& job) { send_bursts_beside_a_waiter(job, 200); });
}

TEST(Burst, EndedOnesAreQueued) {
  run_ranks(2, [](Job& job) {
    int32_t descriptor = -1;
    ASSERT_EQ(hvd_completions_fd(job.get(), &descriptor, nullptr), HVD_OK);
    send_bursts(job, 200, Told::kByQueue);
  });
}

// Nothing waits for the end of a burst: neither a wait within it nor other threads.
TEST(Burst, WaitingWithinOne) {
  run_ranks(2, [](Job& job) {
    const Together outer(job), inner(job);
    std::thread other([&] {
      std::vector<float> data(1000, 1.0f);
      for (int i = 0; i < 20; ++i) ASSERT_EQ(job.sum(data, "other").status, HVD_OK);
    });
    std::vector<float> data(3, 1.0f);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(job.sum(data, "within").status, HVD_OK);
    other.join();
    hvd_handle* handle = nullptr;
    ASSERT_EQ(job.start_sum(data, named("asked"), &handle).status, HVD_OK);
    while (hvd_test(handle, nullptr) == HVD_PENDING) std::this_thread::yield();
    EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  });
}

TEST(Burst, IsAnnouncedInOneMessage) {
  constexpr int kBursts = 20;
  constexpr size_t kOperations = 50;
  run_ranks(2, [](Job& job) {
    std::vector<float> data[kOperations];
    hvd_handle* handles[kOperations] = {};
    const double before = metric_of(job, "messages_sent");
    for (int round = 0; round < kBursts; ++round) {
      {
        const Together together(job);
        for (size_t i = 0; i < kOperations; ++i) {
          data[i].assign(600, 1.0f);
          ASSERT_EQ(
              job.start_sum(data[i], named(("m" + std::to_string(i)).c_str()), &handles[i]).status,
              HVD_OK);
        }
      }
      for (hvd_handle* handle : handles) ASSERT_EQ(Job::wait(handle).status, HVD_OK);
    }
    for (const std::vector<float>& each : data) EXPECT_EQ(each, std::vector<float>(600, 2.0f));
    // A burst may meet the engine's thread awake, which then announces what it finds; that is not
    // the rule.
    if (job.rank() == 0) return;
    EXPECT_LT(metric_of(job, "messages_sent") - before, kBursts * kOperations / 2);
  });
}

TEST(Burst, AnEndWithoutABeginning) {
  run_ranks(1, [](Job& job) {
    hvd_error error = HVD_ERROR_INIT;
    EXPECT_EQ(hvd_burst_end(job.get(), &error), HVD_ERR_INVALID_STATE);
    EXPECT_NE(std::string(error.message).find("not begun"), std::string::npos) << error.message;
    std::vector<float> data(1, 1.0f);
    EXPECT_EQ(job.sum(data, "next").status, HVD_OK);
  });
}

TEST(Burst, BetweenHosts) {
  run_hosts(2, 1, [](Job& job) { send_bursts_beside_a_waiter(job, 100); });
}

}  // namespace
}  // namespace hvd::testing
