// SPDX-License-Identifier: Apache-2.0
// Contexts come and go without leaving threads or descriptors.
#include <filesystem>

#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

size_t entries(const char* folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(Lifetime, TwoHundredJobsLeaveNothing) {
  const auto one_job = [] {
    run_ranks(2, [](Job& job) {
      std::vector<float> data(10, 1.0f);
      EXPECT_EQ(job.sum(data, "x").status, HVD_OK);
      EXPECT_EQ(data, std::vector<float>(10, 2.0f));
    });
  };
  for (int i = 0; i < 5; ++i) one_job();
  const size_t threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
  for (int i = 0; i < 200; ++i) one_job();
  // A joined thread may stay in the listing for a moment.
  for (int wait = 0; wait < 100 && entries("/proc/self/task") > threads; ++wait) ::usleep(1000);
  EXPECT_EQ(entries("/proc/self/task"), threads);
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
}

}  // namespace
}  // namespace hvd::testing
