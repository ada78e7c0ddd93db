// SPDX-License-Identifier: Apache-2.0
// Where the library can not serve, tensors go through host memory: for all ranks alike, with one
// line that says why; what goes wrong later ends the job, and nothing hangs.
#include "nccl_ranks.h"

namespace hvd::testing {
namespace {

class Fallback : public Nccl {};

constexpr int kInternalError = 3, kDeviceMemoryIsOut = 2;

bool through_host(const std::vector<std::string>& lines, const std::string& why) {
  return !lines.empty() && std::all_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(" go through host memory: ") != std::string::npos &&
           line.find(why) != std::string::npos;
  });
}

std::vector<std::string> run_and_check(int size, const Job::Settings& settings = {},
                                       bool one_device = false) {
  return run_logged(
      size,
      [one_device](Job& job) {
        Device device(one_device ? 0 : job.rank());
        meet(job, device);
        check_reductions(job, device);
        check_moves(job, device);
      },
      settings);
}

TEST_F(Fallback, NoneIsNeeded) {
  const std::vector<std::string> lines = run_and_check(2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].find("0: tensors of CUDA device 0 go through NCCL 2.27.3 ("), 0u) << lines[0];
  EXPECT_EQ(lines[1].find("1: tensors of CUDA device 1 go through NCCL 2.27.3 ("), 0u) << lines[1];
}

TEST_F(Fallback, SeveralRanksOnOneDevice) {
  const std::vector<std::string> lines = run_and_check(2, {}, true);
  EXPECT_EQ(lines.size(), 2u);
  EXPECT_TRUE(through_host(lines, "share a GPU")) << lines[0];
}

TEST_F(Fallback, NotWanted) {
  EXPECT_TRUE(
      through_host(run_and_check(2, {{"gpu_operations", "native"}}), "gpu_operations is native"));
  EXPECT_EQ(fake_nccl::take_calls(), std::vector<std::string>());
}

TEST_F(Fallback, AnotherVersion) {
  fake_nccl::set_version(21300);
  EXPECT_TRUE(through_host(run_and_check(2), "is too old: 2.14.0 is the oldest that is supported"));
}

TEST_F(Fallback, NoLibraryAtThatPath) {
  EXPECT_TRUE(through_host(run_and_check(2, {{"nccl_library", "/nowhere/libnccl.so.2"}}),
                           "there is no NCCL library (/nowhere"));
}

TEST_F(Fallback, OneRankCanNotConnect) {
  fake_nccl::fail("ncclCommInitRankConfig", kSystemError, 1);  // the first rank that comes can
  const std::vector<std::string> lines = run_and_check(2, {{"start_timeout", "2"}});
  EXPECT_EQ(lines.size(), 2u);
  EXPECT_TRUE(through_host(lines, "")) << lines[0];
}

// Without kernels of ours, which would do some of it.
TEST_F(Fallback, WhatTheLibraryDoesNotHave) {
  const auto body = [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    job.barrier("met");
    fake_nccl::take_calls(device.id());
    const int64_t length = 4;
    const auto allreduce = [&](hvd_dtype dtype, hvd_reduce_op op, double postscale) {
      hvd_tensor tensor = device.tensor(device.memory(8), &length);  // large enough for every dtype
      tensor.dtype = dtype;
      hvd_op_options options = device.options("op");
      options.reduce_op = op;
      options.postscale = postscale;
      hvd_handle* handle = nullptr;
      EXPECT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr),
                HVD_OK);
      EXPECT_EQ(Job::wait(handle).status, HVD_OK);
      return fake_nccl::take_calls(device.id()).size();
    };
    EXPECT_EQ(allreduce(HVD_INT16, HVD_SUM, 1), 0u);
    EXPECT_EQ(allreduce(HVD_BOOL, HVD_MAX, 1), 0u);
    EXPECT_EQ(allreduce(HVD_INT32, HVD_AVERAGE, 1), 0u);  // divided exactly by kernels only
    EXPECT_EQ(allreduce(HVD_FLOAT16, HVD_SUM, 1e-9), 0u);
    EXPECT_EQ(allreduce(HVD_FLOAT32, HVD_MIN, 2), 0u);
    EXPECT_EQ(allreduce(HVD_FLOAT32, HVD_ADASUM, 1), 0u);
    EXPECT_EQ(allreduce(HVD_INT32, HVD_SUM, 1), 3u);
    EXPECT_EQ(allreduce(HVD_UINT8, HVD_MAX, 1), 3u);
    EXPECT_EQ(allreduce(HVD_FLOAT64, HVD_PRODUCT, 1), 3u);
    EXPECT_EQ(allreduce(HVD_BFLOAT16, HVD_SUM, 0.25), 4u);  // and the factor
    EXPECT_EQ(allreduce(HVD_FLOAT16, HVD_AVERAGE, 1), 5u);  // in the place of the one before
  };
  run_ranks(2, body, [](int) { return Job::Settings{{"cuda_kernels", "none"}}; });
}

TEST_F(Fallback, OneRankHasJoined) {
  run_ranks(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    hvd_handle* joined = nullptr;
    if (job.rank() == 0) {
      EXPECT_EQ(result_of(device, submit(job, device, hvd_allreduce_async,
                                         device.filled(values(1000, 0)), 1000)),
                Floats(1000, 1.0f));
    }
    ASSERT_EQ(hvd_join_async(job.get(), nullptr, &joined, nullptr), HVD_OK);
    EXPECT_EQ(Job::wait(joined).status, HVD_OK);
    check_reductions(job, device);
  });
}

// The others' tensors stay on their devices.
TEST_F(Fallback, ATensorOfAnotherDeviceThanTheConnectedOne) {
  run_ranks(2, [](Job& job) {
    Device device(job.rank()), other(2);
    meet(job, device);
    check_reductions(job, job.rank() == 0 ? other : device);
    check_moves(job, job.rank() == 0 ? other : device);
    check_reductions(job, device);
  });
}

TEST_F(Fallback, AReducescatterInPlaceAtTheBeginning) {
  run_ranks(3, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    const int64_t lengths[] = {30, 10};
    void* buffer = device.filled(values(30, job.rank()));
    const hvd_tensor in = device.tensor(buffer, &lengths[0]),
                     out = device.tensor(buffer, &lengths[1]);
    const hvd_op_options options = device.options("op");
    hvd_handle* handle = nullptr;
    ASSERT_EQ(hvd_reducescatter_async(job.get(), &in, &out, &options, &handle, nullptr), HVD_OK);
    EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    EXPECT_EQ(device.read(buffer, 10), Floats(10, 6.0f));
  });
}

// One rank has no memory for the result: the others get theirs, and the next operation works.
TEST_F(Fallback, NoMemoryForAResult) {
  std::atomic<int> failed{0};
  run_ranks(2, [&](Job& job) {
    Device device(job.rank());
    meet(job, device);
    EXPECT_EQ(job.barrier("met").status, HVD_OK);
    // for the rank that comes second
    if (job.rank() == 0) fake_cuda::fail("cuMemAlloc", kDeviceMemoryIsOut, 1);
    EXPECT_EQ(job.barrier("set").status, HVD_OK);
    const Failure failure = Job::wait(
        submit(job, device, hvd_allgatherv_async, device.filled(values(10, job.rank())), 10));
    if (failure.status != HVD_OK) {
      ++failed;
      EXPECT_EQ(failure.status, HVD_ERR_OUT_OF_MEMORY) << failure.message;
    }
    EXPECT_EQ(job.barrier("done").status, HVD_OK);
    fake_cuda::fail("cuMemAlloc", 0);
    check_reductions(job, device);
    check_moves(job, device);
  });
  EXPECT_EQ(failed, 1);
}

// An error of the library while works are under way: all ranks learn whose, their comms are
// aborted, and no stream hangs.
TEST_F(Fallback, AnErrorWhileWorksAreUnderWay) {
  const std::string url = fresh_url();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&url, rank] {
      Job job;
      ASSERT_EQ(job.open(url, rank, 2).status, HVD_OK);
      Device device(rank);
      meet(job, device);
      EXPECT_EQ(job.barrier("met").status, HVD_OK);
      if (rank == 1) fake_nccl::set_async_error(1, kInternalError);
      EXPECT_EQ(job.barrier("set").status, HVD_OK);
      void* buffer = device.filled(values(10, rank));
      hvd_handle* handle = submit(job, device, hvd_allreduce_async, buffer, 10, buffer, 10);
      (void)Job::wait(handle);  // ends as it may on rank 0, which has queued its part
      Failure failure;
      while (failure.status == HVD_OK) failure = job.barrier("broken?");
      EXPECT_EQ(failure.rank, 1) << failure.message;
      EXPECT_NE(failure.message.find("): NCCL: "), std::string::npos) << failure.message;
      fake_cuda::synchronize(device.stream());
      job.close();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  fake_nccl::set_async_error(1, 0);
}

// The other rank dies without a word while this one's stream waits for it inside the library.
TEST_F(Fallback, APeerThatGoesAway) {
  const std::string url = fresh_url();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&url, rank] {
      Job job;
      ASSERT_EQ(job.open(url, rank, 2).status, HVD_OK);
      Device device(rank);
      meet(job, device);
      // rank 1's kernel takes long
      void* buffer = device.filled(values(10, rank), rank == 1 ? 2'000'000 : 0);
      EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, buffer, 10, buffer, 10)).status,
                HVD_OK);
      EXPECT_EQ(job.barrier("queued").status, HVD_OK);
      if (rank == 1) fake_nccl::set_async_error(1, kSystemError);
      Failure failure;
      while (failure.status == HVD_OK) failure = job.barrier("lost?");
      EXPECT_EQ(failure.rank, 1) << failure.message;
      fake_cuda::synchronize(device.stream());
      job.close();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  fake_nccl::set_async_error(1, 0);
}

}  // namespace
}  // namespace hvd::testing
