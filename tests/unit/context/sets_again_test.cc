// SPDX-License-Identifier: Apache-2.0
// Process sets that go on from one epoch of an elastic job to the next.
#include <string>
#include <vector>

#include "boundary.h"
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

std::vector<int32_t> ids_of(Job& job) {
  std::vector<int32_t> ids(20);
  size_t count = ids.size();
  EXPECT_EQ(hvd_process_set_ids(job.get(), ids.data(), &count, nullptr), HVD_OK);
  ids.resize(count);
  return ids;
}

Failure find(Job& job, int32_t id) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_process_set* found = nullptr;
  const Failure failure = failure_of(hvd_process_set_find(job.get(), id, &found, &error), error);
  hvd_process_set_free(found);
  return failure;
}

TEST(SetsAgain, KeepTheirIdsAndOthersAreGone) {
  run_ranks(3, [](Job& job) {
    // Set 4 has all ranks now, because the others that there were have gone.
    ASSERT_TRUE(
        job.get()->engine->create_sets_again({{2, {0, 2}}, {4, {0, 1, 2}}, {5, {1}}}, 8).ok());
    EXPECT_EQ(ids_of(job), (std::vector<int32_t>{0, 2, 4, 5}));
    const Failure gone = find(job, 3);
    EXPECT_EQ(gone.status, HVD_ERR_INVALID_STATE);
    EXPECT_NE(gone.message.find("set 3 is gone"), std::string::npos) << gone.message;
    EXPECT_EQ(find(job, 7).status, HVD_ERR_INVALID_STATE);
    EXPECT_EQ(find(job, 8).status, HVD_ERR_NOT_FOUND);
    EXPECT_EQ(find(job, 5).status, HVD_OK);

    hvd_process_set* made = nullptr;
    const int32_t ranks[] = {1, 2};
    ASSERT_EQ(hvd_process_set_create(job.get(), ranks, 2, &made, nullptr), HVD_OK);
    EXPECT_EQ(hvd_process_set_id(made), 8);
    hvd_process_set_free(made);
  });
}

TEST(SetsAgain, RanksThatThereAreNotAreAnError) {
  run_ranks(2, [](Job& job) {
    const Status status = job.get()->engine->create_sets_again({{1, {0, 2}}}, 2);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(ids_of(job), (std::vector<int32_t>{0}));
  });
}

}  // namespace
}  // namespace hvd::testing
