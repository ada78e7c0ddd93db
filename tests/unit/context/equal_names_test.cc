// SPDX-License-Identifier: Apache-2.0
// Ranks that give one name on several process sets. A late rank is no mismatch; what a rank waits
// for elsewhere is told in the reports and where a limit ends the wait.
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

class Set {
 public:
  Set(Job& job, const std::vector<int32_t>& ranks) {
    EXPECT_EQ(hvd_process_set_create(job.get(), ranks.data(), ranks.size(), &set_, nullptr),
              HVD_OK);
  }
  ~Set() { hvd_process_set_free(set_); }
  hvd_process_set* get() const { return set_; }

 private:
  hvd_process_set* set_ = nullptr;
};

void expect_sum_of(Job& job, const char* name, hvd_process_set* set, float sum) {
  std::vector<float> data(2, 1.0f);
  const Failure failure = job.sum(data, name, set);
  EXPECT_EQ(failure.status, HVD_OK) << failure.message;
  EXPECT_EQ(data, std::vector<float>(2, sum));
}

// One rank comes later to its half than the others wait before they ask where it is, and the others
// do not wait for it.
void expect_halves_apart(const char* name) {
  run_ranks(4, [name](Job& job) {
    const Set even(job, {0, 2}), odd(job, {1, 3});
    const Set& mine = job.rank() % 2 == 0 ? even : odd;
    for (int late = 0; late < 4; ++late) {
      if (job.rank() == late) ::usleep(1'300'000);
      expect_sum_of(job, name, mine.get(), 2.0f);
      expect_sum_of(job, name, nullptr, 4.0f);
    }
  });
}

TEST(EqualNames, OnTwoHalvesWithALateRank) { expect_halves_apart("n"); }

TEST(EqualNames, WithoutNamesOnTwoHalvesWithALateRank) { expect_halves_apart(nullptr); }

TEST(EqualNames, OnOverlappingSetsWithALateRank) {
  run_ranks(3, [](Job& job) {
    const Set low(job, {0, 1}), high(job, {1, 2});
    if (job.rank() == 0) ::usleep(1'500'000);
    if (job.rank() < 2) expect_sum_of(job, "n", low.get(), 2.0f);
    if (job.rank() > 0) expect_sum_of(job, "n", high.get(), 2.0f);
    expect_sum_of(job, "n", nullptr, 3.0f);
  });
}

TEST(EqualNames, OppositeOrdersAreNoMismatch) {
  run_ranks(3, [](Job& job) {
    const Set pair(job, {1, 2});
    std::vector<float> on_world(2, 1.0f), on_pair(2, 1.0f);
    hvd_handle* handles[2] = {};
    const bool world_first = job.rank() != 1;
    for (const bool world : {world_first, !world_first}) {
      if (!world && job.rank() == 0) continue;
      ASSERT_EQ(job.start_sum(world ? on_world : on_pair, named("t", world ? nullptr : pair.get()),
                              &handles[world])
                    .status,
                HVD_OK);
      ::usleep(1'300'000);
    }
    for (hvd_handle* handle : handles) {
      if (handle == nullptr) continue;
      EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    }
    EXPECT_EQ(on_world[0], 3.0f);
    EXPECT_EQ(on_pair[0], job.rank() == 0 ? 1.0f : 2.0f);
  });
}

// Rank 0 names the world, rank 1 a smaller set, and rank 2 comes late to both. The time limit of
// one operation ends that one only.
TEST(EqualNames, ATimeLimitSaysWhereTheOtherWaits) {
  run_ranks(3, [](Job& job) {
    const Set pair(job, {1, 2});
    if (job.rank() == 2) ::usleep(3'000'000);
    std::vector<float> data(2, 1.0f);
    hvd_op_options options = named("t", job.rank() == 0 ? nullptr : pair.get());
    options.timeout_ns = (job.rank() == 0 ? 2 : 20) * kSecond;
    hvd_handle* handle = nullptr;
    ASSERT_EQ(job.start_sum(data, options, &handle).status, HVD_OK);
    const Failure failure = Job::wait(handle);
    if (job.rank() == 0) {
      EXPECT_EQ(failure.status, HVD_ERR_TIMEOUT) << failure.message;
      const std::string where =
          "missing ranks 1 2 of 3; rank 1 waits in allreduce \"t\" of process set 1";
      EXPECT_NE(failure.message.find(where), std::string::npos) << failure.message;
    } else {
      EXPECT_EQ(failure.status, HVD_OK) << failure.message;
      // They are told when they come to what rank 0 has given up.
      EXPECT_EQ(job.sum(data, "t").status, HVD_ERR_TIMEOUT);
    }
    expect_sum_of(job, "t", nullptr, 3.0f);
  });
}

}  // namespace
}  // namespace hvd::testing
