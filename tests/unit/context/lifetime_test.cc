// SPDX-License-Identifier: Apache-2.0
// Contexts come and go without leaving threads or descriptors.
#include "unit/context/ranks.h"
#include "unit/leftovers.h"

namespace hvd::testing {
namespace {

TEST(Lifetime, TwoHundredJobsLeaveNothing) {
  const auto one_job = [] {
    run_ranks(2, [](Job& job) {
      std::vector<float> data(10, 1.0f);
      EXPECT_EQ(job.sum(data, "x").status, HVD_OK);
      EXPECT_EQ(data, std::vector<float>(10, 2.0f));
    });
  };
  for (int i = 0; i < 5; ++i) one_job();
  const size_t threads = running_threads(), descriptors = open_descriptors();
  for (int i = 0; i < 200; ++i) one_job();
  EXPECT_EQ(running_threads(), threads);
  EXPECT_EQ(open_descriptors(), descriptors);
}

}  // namespace
}  // namespace hvd::testing
