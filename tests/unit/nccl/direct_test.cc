// SPDX-License-Identifier: Apache-2.0
// Collectives from device to device: right although the kernels before are late, in the order of
// the caller's stream, and with nothing asked of driver and library but what is needed.
#include <algorithm>

#include "nccl_ranks.h"

namespace hvd::testing {
namespace {

// With kernels of ours, and without.
class Direct : public Nccl, public ::testing::WithParamInterface<const char*> {
 protected:
  static void run_ranks(int size, const std::function<void(Job&)>& body,
                        const Job::Settings& more = {}) {
    Job::Settings settings = more;
    settings.emplace_back("cuda_kernels", GetParam());
    testing::run_ranks(size, body, [&](int) { return settings; });
  }
};
INSTANTIATE_TEST_SUITE_P(With, Direct, ::testing::Values(kKernelFile, "none"),
                         [](const auto& info) {
                           return std::string(info.param) == "none" ? "no_kernels" : "kernels";
                         });

size_t copies(const std::vector<std::string>& calls) {
  return static_cast<size_t>(std::count_if(calls.begin(), calls.end(), [](const std::string& call) {
    return call.starts_with("cuMemcpy");
  }));
}

TEST_P(Direct, EveryCollective) {
  for (const int size : {1, 2, 3, 4}) {
    fake_cuda::take_calls();
    run_ranks(size, [](Job& job) {
      Device device(job.rank());
      meet(job, device);
      job.barrier("met");
      if (job.rank() == 0) {
        EXPECT_EQ(copies(fake_cuda::take_calls()), static_cast<size_t>(2 * job.size()));
      }
      job.barrier("counted");
      check_reductions(job, device);
      check_moves(job, device);
      check_group(job, device);
    });
    EXPECT_EQ(copies(fake_cuda::take_calls()), 0u) << "through host memory";
  }
}

TEST_P(Direct, BetweenHosts) {
  testing::run_ranks(
      4,
      [](Job& job) {
        Device device(job.rank());
        meet(job, device);
        check_reductions(job, device);
        check_moves(job, device);
      },
      [](int rank) {
        return Job::Settings{{"hostname", "host" + std::to_string(rank / 2)},
                             {"cuda_kernels", GetParam()}};
      });
}

TEST_P(Direct, ALibraryThatConnectsFirst) {
  fake_nccl::set_init_delay(20);
  fake_nccl::set_enqueue_delay(5);
  run_ranks(3, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    check_reductions(job, device);
    check_moves(job, device);
  });
}

TEST_P(Direct, ProcessSets) {
  run_ranks(4, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    const int32_t even[] = {0, 2};
    hvd_process_set* set = nullptr;
    ASSERT_EQ(hvd_process_set_create(job.get(), even, 2, &set, nullptr), HVD_OK);
    if (job.rank() % 2 == 0) {
      for (int round = 0; round < 3; ++round) {
        void* buffer = device.filled(values(500, job.rank()));
        const int64_t length = 500;
        const hvd_tensor tensor = device.tensor(buffer, &length);
        hvd_op_options options = device.options("even");
        options.set = set;
        hvd_handle* handle = nullptr;
        ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr),
                  HVD_OK);
        EXPECT_EQ(Job::wait(handle).status, HVD_OK);
        EXPECT_EQ(device.read(buffer, 500), Floats(500, 4.0f));
      }
    }
    check_reductions(job, device);
    EXPECT_EQ(hvd_process_set_destroy(set, nullptr), HVD_OK);
    check_moves(job, device);
  });
}

// The whole of what is asked of driver and library, in its order.
TEST_P(Direct, AsksForNoMore) {
  run_ranks(1, [](Job& job) {
    Device device(0);
    void* buffer = device.filled(values(100, 0), 0);
    const auto once = [&] {
      hvd_op_options options = device.options("op");
      options.prescale = 0.5;
      const int64_t length = 100;
      const hvd_tensor tensor = device.tensor(buffer, &length);
      hvd_handle* handle = nullptr;
      ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr),
                HVD_OK);
      EXPECT_EQ(Job::wait(handle).status, HVD_OK);
      fake_cuda::synchronize(device.stream());
    };
    for (int warm = 0; warm < 5; ++warm) once();
    fake_cuda::take_calls();
    fake_nccl::take_calls();
    once();
    const std::vector<std::string> driver = fake_cuda::take_calls();
    ASSERT_EQ(driver.size(), 4u);
    const std::string caller = driver[0].substr(driver[0].find(' ') + 1);
    const std::string ours = driver[1].substr(driver[1].find(' ') + 1);
    EXPECT_NE(caller, ours);
    EXPECT_EQ(driver, (std::vector<std::string>{
                          "cuEventRecord " + caller,      // what the inputs wait for
                          "cuStreamWaitEvent " + ours,    //
                          "cuEventRecord " + ours,        // behind what the library has queued
                          "cuStreamWaitEvent " + caller,  // what comes there sees the result
                      }));
    // The factor is that of the operation before: no new one is made.
    const std::vector<std::string> library = fake_nccl::take_calls();
    ASSERT_EQ(library.size(), 3u);
    EXPECT_EQ(library[0], "dev0 ncclGroupStart");
    EXPECT_TRUE(library[1].starts_with("dev0 ncclAllReduce float32 100 ")) << library[1];
    EXPECT_TRUE(library[1].ends_with(" " + ours)) << library[1];
    EXPECT_EQ(library[2], "dev0 ncclGroupEnd");
  });
}

// Groups of calls that so many tensors, submitted together, have become.
int64_t groups_of(const Job& job, Device& device, int operations, bool kernels) {
  fake_nccl::take_calls(device.id());
  std::vector<void*> buffers;
  std::vector<hvd_handle*> handles;
  const int64_t length = 200;
  EXPECT_EQ(hvd_burst_begin(job.get(), nullptr), HVD_OK);
  for (int i = 0; i < operations; ++i) {
    buffers.push_back(device.filled(values(200, job.rank()), 10));
    const hvd_tensor tensor = device.tensor(buffers.back(), &length);
    const std::string name = "fused." + std::to_string(i);
    const hvd_op_options options = device.options(name.c_str());
    EXPECT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handles.emplace_back(),
                                  nullptr),
              HVD_OK);
  }
  EXPECT_EQ(hvd_burst_end(job.get(), nullptr), HVD_OK);
  for (hvd_handle* handle : handles) EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  for (void* buffer : buffers) EXPECT_EQ(device.read(buffer, 200), Floats(200, 3.0f));
  const std::vector<std::string> calls = fake_nccl::take_calls(device.id());
  const int64_t groups = std::count_if(
      calls.begin(), calls.end(), [](const auto& call) { return call.ends_with("GroupStart"); });
  const int64_t reductions = std::count_if(calls.begin(), calls.end(), [](const auto& call) {
    return call.find("AllReduce") != std::string::npos;
  });
  EXPECT_EQ(static_cast<int64_t>(calls.size()), reductions + 2 * groups);
  EXPECT_EQ(reductions, kernels ? groups : operations);
  return groups;
}

// A driver that happens to look during the burst takes part of it, so the best of several rounds
// counts.
TEST_P(Direct, FusedTensorsAreOneGroupOfCalls) {
  run_ranks(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    int64_t fewest = 100;
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(job.barrier("round").status, HVD_OK);
      fewest = std::min(fewest, groups_of(job, device, 10, GetParam() == kKernelFile));
    }
    EXPECT_EQ(fewest, 1);
  });
}

TEST_P(Direct, NobodyWaitsForALateKernel) {
  run_ranks(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    void* buffer = device.filled(values(100, job.rank()), 500'000);
    EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, buffer, 100, buffer, 100)).status,
              HVD_OK);
    // The handle has ended, the kernel has not: its value would be there.
    std::atomic<bool> late{true};
    fake_cuda::launch(device.stream(), 0, [&] { late = false; });
    EXPECT_TRUE(late);
    EXPECT_EQ(device.read(buffer, 100), Floats(100, 3.0f));
  });
}

// What has been queued arrives, although the job ends.
TEST_P(Direct, AJobThatEndsBeforeItsKernel) {
  run_ranks(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    void* buffer = device.filled(values(100, job.rank()), 300'000);
    EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, buffer, 100, buffer, 100)).status,
              HVD_OK);
    EXPECT_EQ(job.barrier("queued").status, HVD_OK);
    EXPECT_EQ(job.close().status, HVD_OK);
    EXPECT_EQ(device.read(buffer, 100), Floats(100, 3.0f));
    ASSERT_EQ(job.open("mem://again-" + std::to_string(::getpid()), job.rank(), 2).status, HVD_OK);
  });
}

// The library lets go when all have left, which may not hold up one that leaves first for long.
TEST_P(Direct, ARankThatLeavesLongBeforeTheOther) {
  const std::string url = fresh_url();
  std::atomic<bool> gone{false};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      Job job;
      ASSERT_EQ(job.open(url, rank, 2).status, HVD_OK);
      Device device(rank);
      meet(job, device);
      check_reductions(job, device);
      while (rank == 0 && !gone) std::this_thread::yield();
      EXPECT_EQ(job.close().status, HVD_OK);
      gone = true;
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace hvd::testing
