// SPDX-License-Identifier: Apache-2.0
// How operations end, and what holds their memory until then.
#include <future>

#include "unit/cpp/ranks.h"

namespace hvd::testing {
namespace {

using namespace std::chrono_literals;

TEST(CppPending, DestructorWaitsForTheOthers) {
  std::atomic<bool> late{false};
  run_contexts(2, [&](Context& job) {
    std::vector<float> data(1000, 1.0f);
    if (job.rank() == 1) {
      std::this_thread::sleep_for(100ms);
      late = true;
      job.allreduce(data, {.name = "x"}).wait();
      return;
    }
    {
      const Pending left = job.allreduce(data, {.name = "x"});
    }
    EXPECT_TRUE(late);
    EXPECT_EQ(data[999], 2.0f);
  });
}

TEST(CppPending, WaitingForATime) {
  run_contexts(2, [](Context& job) {
    std::vector<float> data(1, 1.0f);
    if (job.rank() == 1) job.barrier({.name = "go"}).wait();
    Pending pending = job.allreduce(data, {.name = "x"});
    if (job.rank() == 0) {
      EXPECT_FALSE(pending.wait_for(20ms));
      EXPECT_FALSE(pending.ready());
      job.barrier({.name = "go"}).wait();
    }
    pending.wait();
    EXPECT_TRUE(pending.ready());
    EXPECT_TRUE(pending.wait_for(0ns));
  });
}

TEST(CppPending, MovingTakesTheOperationAlong) {
  run_contexts(2, [](Context& job) {
    std::vector<float> a(1, 1.0f), b(1, 1.0f);
    Pending first = job.allreduce(a, {.name = "a"});
    Pending other = std::move(first);
    EXPECT_FALSE(first.valid());  // NOLINT: what moving leaves behind is the question
    EXPECT_TRUE(other.valid());
    other = job.allreduce(b, {.name = "b"});  // waits for a
    EXPECT_EQ(a[0], 2.0f);
    other.wait();
    other.detach();
    EXPECT_FALSE(other.valid());
  });
}

TEST(CppPending, ThenHearsOfSuccessAndFailureOnce) {
  run_contexts(2, [](Context& job) {
    std::vector<float> good(1, 1.0f), bad(static_cast<std::size_t>(job.rank() + 1), 1.0f);
    std::promise<std::string> of_good, of_bad;
    const auto hear = [](std::promise<std::string>& promise) {
      return [&promise](Expected<void> result) {
        promise.set_value(result ? "good" : result.error().name());
      };
    };
    Pending first = job.allreduce(good, {.name = "good"}),
            second = job.allreduce(bad, {.name = "bad"});
    first.then(hear(of_good));
    second.then(hear(of_bad));
    EXPECT_EQ(of_good.get_future().get(), "good");
    EXPECT_EQ(of_bad.get_future().get(), "HVD_ERR_MISMATCH");
    EXPECT_THROW(first.then([](Expected<void>) {}), UsageError);
  });
}

TEST(CppPending, TimeLimitOfAnOperation) {
  run_contexts(2, [](Context& job) {
    std::vector<float> data(1, 1.0f);
    if (job.rank() == 0) {
      EXPECT_THROW(job.allreduce(data, {.name = "alone", .timeout = 30ms}).wait(), TimeoutError);
    }
  });
}

}  // namespace
}  // namespace hvd::testing
