// SPDX-License-Identifier: Apache-2.0
// Operations with a time limit that one rank submits alone: they fail, and the job goes on, however
// late the limit is noticed.
#include <atomic>
#include <chrono>
#include <thread>

#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

Failure sum_alone(const Job& job, int64_t limit) {
  std::vector<float> data(4, 1.0f);
  hvd_op_options options = named("alone");
  options.timeout_ns = limit;
  hvd_handle* handle = nullptr;
  const Failure failure = job.start_sum(data, options, &handle);
  return failure.status == HVD_OK ? Job::wait(handle) : failure;
}

TEST(Deadline, OneAfterTheOther) {
  run_ranks(2, [](Job& job) {
    for (int i = 0; i < 20 && job.rank() == 0; ++i) {
      const Failure failure = sum_alone(job, kSecond / 200);
      ASSERT_EQ(failure.status, HVD_ERR_TIMEOUT) << failure.message;
      EXPECT_NE(failure.message.find("missing ranks 1 of 2"), std::string::npos) << failure.message;
    }
    EXPECT_EQ(job.barrier("afterwards").status, HVD_OK);
  });
}

// The rank's engine is held up, here by its own log function, until its coordinator could have been
// given up for lost.
TEST(Deadline, SleptThrough) {
  std::atomic<bool> slept{false};
  const auto sleep_once = [](void* data, int32_t, int32_t, const char*, const char* text) {
    if (std::string(text).find("stalled") == std::string::npos) return;
    if (static_cast<std::atomic<bool>*>(data)->exchange(true)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  };
  const std::string url = fresh_url();
  const auto rank = [&](int number) {
    Job job;
    const Job::Settings settings{{"stall_check_time_seconds", "0.05"}};
    ASSERT_EQ(
        job.open(url, number, 2, settings, number == 1 ? +sleep_once : nullptr, &slept).status,
        HVD_OK);
    if (number == 1) {
      const Failure failure = sum_alone(job, kSecond);
      EXPECT_EQ(failure.status, HVD_ERR_TIMEOUT) << failure.message;
      EXPECT_TRUE(slept.load());
    }
    const Failure after = job.barrier("afterwards");
    EXPECT_EQ(after.status, HVD_OK) << after.message;
    EXPECT_EQ(job.close().status, HVD_OK);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

}  // namespace
}  // namespace hvd::testing
