// SPDX-License-Identifier: Apache-2.0
// Ranks that give one name on different process sets: an error on each of them, and nothing is owed afterwards.
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

// 0 is the world, 1 the process set of ranks 1 and 2.
class Sets {
 public:
  explicit Sets(Job& job) {
    const int32_t ranks[] = {1, 2};
    EXPECT_EQ(hvd_process_set_create(job.get(), ranks, 2, &pair_, nullptr), HVD_OK);
  }
  ~Sets() { hvd_process_set_free(pair_); }
  hvd_process_set* operator[](int which) const { return which == 0 ? nullptr : pair_; }

 private:
  hvd_process_set* pair_ = nullptr;
};

void expect_both_work(Job& job, const Sets& sets, const char* name) {
  for (int round = 0; round < 3; ++round) {
    std::vector<float> data(2, 1.0f);
    Failure failure = job.sum(data, name);
    EXPECT_EQ(failure.status, HVD_OK) << failure.message;
    EXPECT_EQ(data[0], 3.0f);
    if (job.rank() == 0) continue;
    data.assign(2, 1.0f);
    failure = job.sum(data, name, sets[1]);
    EXPECT_EQ(failure.status, HVD_OK) << failure.message;
    EXPECT_EQ(data[0], 2.0f);
  }
}

// on[rank]: the set that the rank names. Either set may find out first, and says whom it knows of.
void expect_refused(const std::vector<int>& on, int late_rank = -1) {
  run_ranks(3, [&](Job& job) {
    const Sets sets(job);
    expect_both_work(job, sets, "t");
    if (job.rank() == late_rank) ::usleep(1'500'000);
    std::vector<float> data(2, 1.0f);
    const Failure failure = job.sum(data, "t", sets[on[static_cast<size_t>(job.rank())]]);
    EXPECT_EQ(failure.status, HVD_ERR_MISMATCH) << "rank " << job.rank() << ": " << failure.message;
    EXPECT_EQ(failure.message.rfind("allreduce \"t\": process set differs: rank ", 0), 0u) << failure.message;
    EXPECT_NE(failure.message.find("rank 1 1"), std::string::npos) << failure.message;
    EXPECT_EQ(data, std::vector<float>(2, 1.0f));
    expect_both_work(job, sets, "t");
  });
}

TEST(ProcessSetMismatch, OneRankNamesASmallerSet) { expect_refused({0, 1, 0}); }

TEST(ProcessSetMismatch, TwoRanksNameASmallerSetAndFinishThere) {
  run_ranks(3, [](Job& job) {
    const Sets sets(job);
    std::vector<float> data(2, 1.0f);
    hvd_op_options options = named("t", sets[job.rank() == 0 ? 0 : 1]);
    options.timeout_ns = 2 * kSecond;  // nobody is elsewhere: rank 0 is simply alone
    hvd_handle* handle = nullptr;
    ASSERT_EQ(job.start_sum(data, options, &handle).status, HVD_OK);
    EXPECT_EQ(Job::wait(handle).status, job.rank() == 0 ? HVD_ERR_TIMEOUT : HVD_OK);
    EXPECT_EQ(data[0], job.rank() == 0 ? 1.0f : 2.0f);
  });
}

TEST(ProcessSetMismatch, ARankThatComesLateIsToldToo) { expect_refused({0, 1, 0}, 2); }

TEST(ProcessSetMismatch, OppositeOrdersAreNoMismatch) {
  run_ranks(3, [](Job& job) {
    const Sets sets(job);
    std::vector<float> world(2, 1.0f), pair(2, 1.0f);
    hvd_handle* handles[2] = {};
    const bool world_first = job.rank() != 1;
    for (const bool on_world : {world_first, !world_first}) {
      if (!on_world && job.rank() == 0) continue;
      std::vector<float>& data = on_world ? world : pair;
      ASSERT_EQ(job.start_sum(data, named("t", sets[on_world ? 0 : 1]), &handles[on_world ? 0 : 1]).status, HVD_OK);
      ::usleep(1'300'000);  // longer than a rank waits before it asks; but nobody is waiting for either yet
    }
    for (hvd_handle* handle : handles) {
      if (handle == nullptr) continue;
      EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    }
    EXPECT_EQ(world[0], 3.0f);
    EXPECT_EQ(pair[0], job.rank() == 0 ? 1.0f : 2.0f);
  });
}

}  // namespace
}  // namespace hvd::testing
