// SPDX-License-Identifier: Apache-2.0
// Process sets, whose communicators are split off the one of all ranks where that is connected when
// a set is created.
#include "kernel_ranks.h"

namespace hvd::testing {
namespace {

class Sets : public Nccl {
 protected:
  static hvd_process_set* create(const Job& job, const std::vector<int32_t>& ranks) {
    hvd_process_set* set = nullptr;
    hvd_error error = HVD_ERROR_INIT;
    EXPECT_EQ(hvd_process_set_create(job.get(), ranks.data(), ranks.size(), &set, &error), HVD_OK)
        << error.message;
    return set;
  }

  // Several allreduces in the set {0, 2} of ranks that have `device`.
  static void check(const Job& job, Device& device, hvd_process_set* set) {
    for (int round = 0; round < 4; ++round) {
      void* buffer = device.filled(values(500, job.rank()));
      const int64_t length = 500;
      const hvd_tensor tensor = device.tensor(buffer, &length);
      hvd_op_options options = device.options("pair");
      options.set = set;
      hvd_handle* handle = nullptr;
      ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr),
                HVD_OK);
      EXPECT_EQ(Job::wait(handle).status, HVD_OK);
      EXPECT_EQ(device.read(buffer, 500), Floats(500, 4.0f));
    }
  }

  static size_t made_by_id(const Device& device) {
    return count_of(fake_nccl::take_calls(device.id()), "ncclCommInitRankConfig");
  }
};

TEST_F(Sets, AreSplitOff) {
  for (const char* streams : {"1", "2"}) {
    for (const int delay : {0, 3}) {
      fake_nccl::set_enqueue_delay(delay);
      fake_nccl::set_init_delay(delay);
      run_ranks(
          3,
          [](Job& job) {
            Device device(job.rank());
            meet(job, device);
            // It is under way when the set is created.
            void* all = device.filled(values(1000, job.rank()), 30'000);
            hvd_handle* handle = submit(job, device, hvd_allreduce_async, all, 1000, all, 1000);
            fake_nccl::take_calls(device.id());
            hvd_process_set* set = create(job, {0, 2});
            const std::string color = job.rank() == 1 ? "-1" : "0";
            EXPECT_EQ(count_of(fake_nccl::take_calls(device.id()), "ncclCommSplit " + color), 1u);
            EXPECT_EQ(Job::wait(handle).status, HVD_OK);
            EXPECT_EQ(device.read(all, 1000), Floats(1000, 6.0f));
            if (job.rank() != 1) check(job, device, set);
            EXPECT_EQ(made_by_id(device), 0u);
            check_reductions(job, device);
            EXPECT_EQ(hvd_process_set_destroy(set, nullptr), HVD_OK);
          },
          [streams](int) { return Job::Settings{{"num_nccl_streams", streams}}; });
    }
  }
}

// Of sets that were never used on devices, and of one that is used after another.
TEST_F(Sets, ComeAndGo) {
  run_ranks(3, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    hvd_process_set* unused = create(job, {0, 1});
    hvd_process_set* set = create(job, {0, 2});
    EXPECT_EQ(hvd_process_set_destroy(unused, nullptr), HVD_OK);
    if (job.rank() != 1) check(job, device, set);
    EXPECT_EQ(hvd_process_set_destroy(set, nullptr), HVD_OK);
    hvd_process_set_free(create(job, {1, 2}));  // goes with the job
    set = create(job, {0, 2});
    if (job.rank() != 1) check(job, device, set);
    check_reductions(job, device);
    hvd_process_set_free(set);
  });
}

TEST_F(Sets, AreConnectedByThemselvesBeforeTheWorldIs) {
  run_ranks(3, [](Job& job) {
    Device device(job.rank());
    hvd_process_set* set = create(job, {0, 2});
    if (job.rank() != 1) check(job, device, set);
    EXPECT_EQ(made_by_id(device), job.rank() == 1 ? 0u : 1u);
    meet(job, device);
    check_reductions(job, device);
    hvd_process_set_free(set);
  });
}

TEST_F(Sets, OfAnotherDeviceThanTheWorlds) {
  run_ranks(3, [](Job& job) {
    Device device(job.rank()), other(3);
    meet(job, device);
    hvd_process_set* set = create(job, {0, 2});
    EXPECT_EQ(job.barrier("created").status, HVD_OK);
    fake_nccl::take_calls(device.id());
    if (job.rank() != 1) check(job, job.rank() == 0 ? other : device, set);
    EXPECT_EQ(made_by_id(job.rank() == 0 ? other : device), job.rank() == 1 ? 0u : 1u);
    check_reductions(job, device);
    hvd_process_set_free(set);
  });
}

// The communicator that would be split is in an unknown state then.
TEST_F(Sets, AFailedSplitEndsTheJob) {
  const std::string url = fresh_url();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&url, rank] {
      Job job;
      ASSERT_EQ(job.open(url, rank, 3).status, HVD_OK);
      Device device(rank);
      meet(job, device);
      EXPECT_EQ(job.barrier("met").status, HVD_OK);
      if (rank == 0) fake_nccl::fail("ncclCommSplit", kSystemError, 2);  // two ranks can
      EXPECT_EQ(job.barrier("set").status, HVD_OK);
      const int32_t pair[] = {0, 2};
      hvd_process_set* set = nullptr;
      hvd_error error = HVD_ERROR_INIT;
      EXPECT_NE(hvd_process_set_create(job.get(), pair, 2, &set, &error), HVD_OK);
      EXPECT_NE(std::string(error.message).find("ncclCommSplit"), std::string::npos)
          << error.message;
      EXPECT_NE(job.barrier("after").status, HVD_OK);
      job.close();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  fake_nccl::fail("ncclCommSplit", 0);
}

}  // namespace
}  // namespace hvd::testing
