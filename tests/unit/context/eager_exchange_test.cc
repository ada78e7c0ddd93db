// SPDX-License-Identifier: Apache-2.0
// Two ranks on two hosts, whose coordinator sends small payloads ahead: whoever is first, the sums
// are right, and what one rank gives up is not finished by the other's memory of it.
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

constexpr int kMillisecond = 1000;  // as usleep() counts

// Each value is new, so that one of an earlier round would be seen.
void expect_sums(Job& job, int rounds, size_t length) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> data(length, static_cast<float>(round * 10 + job.rank()));
    const Failure failure = job.sum(data, "t");
    ASSERT_EQ(failure.status, HVD_OK) << failure.message;
    ASSERT_EQ(data, std::vector<float>(length, static_cast<float>(round * 20 + 1)))
        << "round " << round;
  }
}

Failure sum_in(Job& job, std::vector<float>& data, int64_t milliseconds) {
  hvd_op_options options = named("t");
  options.timeout_ns = milliseconds * (kSecond / 1000);
  hvd_handle* handle = nullptr;
  const Failure failure = job.start_sum(data, options, &handle);
  return failure.status == HVD_OK ? Job::wait(handle) : failure;
}

TEST(EagerExchange, SumsAreRightWhoeverIsFirst) {
  run_hosts(2, 1, [](Job& job) {
    // From 2,049 on they travel apart from their messages; 16,384 are the most that are sent ahead.
    for (const size_t length : {1, 100, 2048, 2049, 5000, 16384, 16385})
      expect_sums(job, 200, length);
    for (int round = 0; round < 20; ++round) {
      if (round % 2 == job.rank()) ::usleep(kMillisecond);
      expect_sums(job, 1, 100);
    }
  });
}

TEST(EagerExchange, IsTakenBackWhenTheCoordinatorGivesUp) {
  run_hosts(2, 1, [](Job& job) {
    for (int round = 0; round < 3; ++round) {
      expect_sums(job, 5, 8);
      // The barrier travels behind the taking back: rank 1 comes when the payload is no longer in
      // its memory.
      if (job.rank() == 1) {
        EXPECT_EQ(job.barrier("behind").status, HVD_OK);
      }
      std::vector<float> data(8, 1.0f);
      const Failure failure = sum_in(job, data, job.rank() == 0 ? 50 : 10000);
      if (job.rank() == 0) {
        EXPECT_EQ(job.barrier("behind").status, HVD_OK);
      }
      EXPECT_EQ(failure.status, HVD_ERR_TIMEOUT)
          << "rank " << job.rank() << ": " << failure.message;
      EXPECT_NE(failure.message.find("missing ranks 1 of 2"), std::string::npos) << failure.message;
      EXPECT_EQ(data, std::vector<float>(8, 1.0f));
    }
    expect_sums(job, 5, 8);
  });
}

// The other rank comes at the moment at which the coordinator gives up: it may have the result, and
// nothing is owed then.
TEST(EagerExchange, MayMeetTheEndOfTheTime) {
  run_hosts(2, 1, [](Job& job) {
    for (int round = 0; round < 60; ++round) {
      expect_sums(job, 2, 8);
      if (job.rank() == 1) ::usleep(static_cast<useconds_t>(8 * kMillisecond + round * 100));
      std::vector<float> data(8, 1.0f);
      const Failure failure = sum_in(job, data, job.rank() == 0 ? 10 : 5000);
      EXPECT_TRUE(failure.status == HVD_OK || failure.status == HVD_ERR_TIMEOUT) << failure.message;
      EXPECT_EQ(data[7], failure.status == HVD_OK ? 2.0f : 1.0f);
    }
    expect_sums(job, 5, 8);
  });
}

TEST(EagerExchange, IsNotUsedForAnotherShape) {
  run_hosts(2, 1, [](Job& job) {
    expect_sums(job, 5, 8);
    for (const int late : {0, 1}) {
      if (job.rank() == late) ::usleep(5 * kMillisecond);
      std::vector<float> data(job.rank() == 0 ? 8 : 9, 1.0f);
      const Failure failure = job.sum(data, "t");
      EXPECT_EQ(failure.status, HVD_ERR_MISMATCH) << failure.message;
      EXPECT_NE(failure.message.find("rank 0 [8], rank 1 [9]"), std::string::npos)
          << failure.message;
      expect_sums(job, 5, 8);
    }
  });
}

TEST(EagerExchange, IsTakenBackWhenTheOtherRankJoins) {
  run_hosts(2, 1, [](Job& job) {
    expect_sums(job, 5, 8);
    if (job.rank() == 0) {
      std::vector<float> data(8, 3.0f);
      EXPECT_EQ(job.sum(data, "t").status, HVD_OK);
      EXPECT_EQ(data, std::vector<float>(8, 3.0f));
    } else {
      ::usleep(5 * kMillisecond);
    }
    const hvd_op_options options = HVD_OP_OPTIONS_INIT;
    hvd_handle* handle = nullptr;
    ASSERT_EQ(hvd_join_async(job.get(), &options, &handle, nullptr), HVD_OK);
    EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    expect_sums(job, 5, 8);
  });
}

}  // namespace
}  // namespace hvd::testing
