// SPDX-License-Identifier: Apache-2.0
// A rank that leaves the job ends the process sets that it is in, and no others.
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

constexpr int kSize = 4;

class Half {
 public:
  Half(Job& job, int first) {
    const int32_t ranks[] = {first, first + 1};
    EXPECT_EQ(hvd_process_set_create(job.get(), ranks, 2, &set_, nullptr), HVD_OK);
  }
  ~Half() { hvd_process_set_free(set_); }
  hvd_process_set* get() const { return set_; }

 private:
  hvd_process_set* set_ = nullptr;
};

void expect_left(const Failure& failure, int leaver) {
  EXPECT_EQ(failure.status, HVD_ERR_SHUT_DOWN) << failure.message;
  EXPECT_EQ(failure.rank, leaver) << failure.message;
  EXPECT_NE(failure.message.find("rank " + std::to_string(leaver)), std::string::npos)
      << failure.message;
}

void expect_sums(Job& job, const Half& half, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (const size_t length : {size_t{1}, size_t{100'000}}) {
      std::vector<float> data(length, 1.0f);
      const Failure failure = job.sum(data, "part", half.get());
      ASSERT_EQ(failure.status, HVD_OK) << failure.message;
      ASSERT_EQ(data, std::vector<float>(length, 2.0f));
    }
  }
}

void run_rank(int rank, int leaver, Job& job) {
  const Half low(job, 0), high(job, 2);
  const Half& mine = rank < 2 ? low : high;
  expect_sums(job, mine, 2);
  if (rank == leaver) return;
  std::vector<float> data(1, 1.0f);
  expect_left(job.sum(data, "all"), leaver);  // waits until the leaver has gone
  expect_left(job.status(), leaver);
  const int32_t ranks[] = {0, 2};
  hvd_process_set* late = nullptr;
  EXPECT_EQ(hvd_process_set_create(job.get(), ranks, 2, &late, nullptr), HVD_ERR_SHUT_DOWN);
  if (rank / 2 == leaver / 2) {
    expect_left(job.sum(data, "part", mine.get()), leaver);
  } else {
    expect_sums(job, mine, 50);
  }
  expect_left(job.sum(data, "all"), leaver);
}

void expect_others_go_on(int leaver, int hosts) {
  const std::string url = fresh_url();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      Job job;
      const Failure opened =
          job.open(url, rank, kSize, {{"hostname", "host" + std::to_string(rank % hosts)}});
      ASSERT_EQ(opened.status, HVD_OK) << opened.message;
      run_rank(rank, leaver, job);
      EXPECT_EQ(job.close().status, HVD_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Leave, EndsTheSetsOfThatRankOnly) {
  for (int leaver = 0; leaver < kSize; ++leaver) expect_others_go_on(leaver, 1);
}

TEST(Leave, BetweenHosts) {
  for (int leaver = 0; leaver < kSize; ++leaver) expect_others_go_on(leaver, 2);
}

// Who has nothing to do may be gone before others have opened the job, and spoils it for nobody.
TEST(Leave, RightAfterTheStart) {
  constexpr int kRounds = 30;
  for (const int hosts : {1, 2, kSize}) {
    for (int round = 0; round < kRounds; ++round) {
      const std::string url = fresh_url();
      std::vector<std::thread> threads;
      for (int rank = 0; rank < kSize; ++rank) {
        threads.emplace_back([&, rank] {
          Job job;
          const Failure opened =
              job.open(url, rank, kSize, {{"hostname", "host" + std::to_string(rank % hosts)}});
          ASSERT_EQ(opened.status, HVD_OK) << opened.message;
          EXPECT_EQ(job.close().status, HVD_OK);
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

}  // namespace
}  // namespace hvd::testing
