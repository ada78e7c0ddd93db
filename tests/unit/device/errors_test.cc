// SPDX-License-Identifier: Apache-2.0
// What is wrong with a tensor on a device is said; nothing else suffers from it.
#include "device_tensors.h"

namespace hvd::testing {
namespace {

constexpr int kDeviceMemoryIsOut = 2;

Failure refused(const Job& job, const hvd_tensor& in, const hvd_tensor* out = nullptr) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_handle* handle = nullptr;
  const hvd_op_options options = named("x");
  return failure_of(hvd_allreduce_async(job.get(), &in, out, &options, &handle, &error), error);
}

void check_works(const Job& job) {
  Device device(0);
  const int64_t length = 10;
  void* buffer = device.filled(Floats(10, 1.0f));
  const hvd_tensor tensor = device.tensor(buffer, &length);
  const hvd_op_options options = device.options("good");
  hvd_handle* handle = nullptr;
  ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr), HVD_OK);
  const Failure ended = Job::wait(handle);
  EXPECT_EQ(ended.status, HVD_OK) << ended.message;
  EXPECT_EQ(device.read(buffer, 10), Floats(10, static_cast<float>(job.size())));
}

TEST(DeviceErrors, OfOneTensor) {
  run_ranks(1, [](Job& job) {
    Device device(0), other(1);
    const int64_t length = 4;
    float here[4] = {};
    hvd_tensor host = tensor_of(here, &length, 1, HVD_FLOAT32);
    const hvd_tensor there = device.tensor(device.memory(4), &length);

    hvd_tensor wrong = there;
    wrong.device_id = 2;
    EXPECT_EQ(refused(job, wrong).message,
              "allreduce \"x\": device id is 2; this process sees CUDA devices 0 to 1");
    wrong.device_id = 1;
    EXPECT_EQ(
        refused(job, wrong).message,
        "allreduce \"x\": input: data is memory of CUDA device 0; the tensor says CUDA device 1");
    hvd_op_options per_thread = named("x");
    per_thread.stream = reinterpret_cast<void*>(2);
    hvd_error error = HVD_ERROR_INIT;
    hvd_handle* handle = nullptr;
    EXPECT_EQ(hvd_allreduce_async(job.get(), &there, nullptr, &per_thread, &handle, &error),
              HVD_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.message).find("stream is cudaStreamPerThread"), std::string::npos)
        << error.message;
    wrong = there;
    wrong.data = here;
    EXPECT_EQ(refused(job, wrong).message,
              "allreduce \"x\": input: data is host memory; the tensor says CUDA device 0");
    wrong.device_type = 7;
    EXPECT_EQ(refused(job, wrong).message,
              "allreduce \"x\": input: device type is 7; only 1 (CPU) and 2 (CUDA) are offered");
    EXPECT_EQ(refused(job, there, &host).message,
              "allreduce \"x\": output: is on the CPU, the first input on CUDA device 0");
    EXPECT_EQ(refused(job, host, &there).message,
              "allreduce \"x\": output: is on CUDA device 0, the first input on the CPU");
    check_works(job);
  });
}

TEST(DeviceErrors, OneRankOnTheCpu) {
  run_ranks(2, [](Job& job) {
    Device device(0);
    const int64_t length = 4;
    float here[4] = {};
    const hvd_tensor tensor = job.rank() == 0
                                  ? device.tensor(device.filled(Floats(4, 1.0f)), &length)
                                  : tensor_of(here, &length, 1, HVD_FLOAT32);
    const hvd_op_options options = device.options("mixed");
    hvd_handle* handle = nullptr;
    ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr), HVD_OK);
    const Failure ended = Job::wait(handle);
    EXPECT_EQ(ended.status, HVD_ERR_MISMATCH);
    EXPECT_NE(ended.message.find("device differs: rank 0 cuda, rank 1 cpu"), std::string::npos)
        << ended.message;
    check_works(job);
  });
}

TEST(DeviceErrors, NoMemoryForAResult) {
  run_ranks(1, [](Job& job) {
    check_works(job);
    Device device(0);
    const int64_t length = 1000;
    const hvd_tensor tensor = device.tensor(device.filled(Floats(1000, 1.0f)), &length);
    fake_cuda::fail("cuMemAlloc", kDeviceMemoryIsOut);
    const Failure failure = refused(job, tensor);
    EXPECT_EQ(failure.status, HVD_ERR_OUT_OF_MEMORY);
    EXPECT_EQ(failure.message,
              "allreduce \"x\": cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, out of memory");
    fake_cuda::fail("cuMemAlloc", 0);
    check_works(job);
  });
}

// A result whose size is known only when all have said theirs: the others have counted on this rank
// and get their results.
TEST(DeviceErrors, NoMemoryForAGatheredResult) {
  static std::atomic<int> ended;
  ended = 0;
  run_ranks(2, [](Job& job) {
    check_works(job);
    EXPECT_EQ(job.barrier("before").status, HVD_OK);
    // of two calls the second
    if (job.rank() == 0) fake_cuda::fail("cuMemAlloc", kDeviceMemoryIsOut, 1);
    EXPECT_EQ(job.barrier("broken").status, HVD_OK);
    Device device(0);
    const int64_t length = 1000;
    const hvd_tensor tensor = device.tensor(device.filled(Floats(1000, 1.0f)), &length);
    const hvd_op_options options = device.options("gather");
    hvd_handle* handle = nullptr;
    ASSERT_EQ(hvd_allgatherv_async(job.get(), &tensor, nullptr, &options, &handle, nullptr),
              HVD_OK);
    const Failure failure = Job::wait(handle);
    ended += failure.status == HVD_OK ? 1 : 0;
    if (failure.status != HVD_OK) {
      EXPECT_EQ(failure.status, HVD_ERR_OUT_OF_MEMORY);
      EXPECT_EQ(failure.message,
                "allgather \"gather\": cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, out of memory");
    }
    EXPECT_EQ(job.barrier("after").status, HVD_OK);
    fake_cuda::fail("cuMemAlloc", 0);
    EXPECT_EQ(job.barrier("mended").status, HVD_OK);
    check_works(job);
  });
  EXPECT_EQ(ended, 1);
}

TEST(DeviceErrors, AStreamThatCaptures) {
  run_ranks(1, [](Job& job) {
    Device device(0);
    const int64_t length = 4;
    const hvd_tensor tensor = device.tensor(device.memory(4), &length);
    hvd_op_options options = device.options("x");
    hvd_error error = HVD_ERROR_INIT;
    hvd_handle* handle = nullptr;
    fake_cuda::capture(device.stream(), true);
    EXPECT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, &error),
              HVD_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(
        std::string(error.message),
        "allreduce \"x\": the stream is capturing a graph; operations can not be part of one");
    check_works(job);  // on other streams, whose calls do not spoil the graph
    fake_cuda::capture(device.stream(), false);
    check_works(job);
    EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
  });
}

// What the device reports of a kernel before ours ends the job, as the loss of a rank does: all
// learn why.
TEST(DeviceErrors, ADeviceThatHasFailed) {
  const std::string url = fresh_url();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&url, rank] {
      Job job;
      ASSERT_EQ(job.open(url, rank, 2).status, HVD_OK);
      check_works(job);
      EXPECT_EQ(job.barrier("before").status, HVD_OK);
      if (rank == 0) fake_cuda::fail("cuEventQuery", 700);
      EXPECT_EQ(job.barrier("broken").status, HVD_OK);
      Device device(0);
      const int64_t length = 1000;
      const hvd_tensor tensor = device.tensor(device.filled(Floats(1000, 1.0f)), &length);
      const hvd_op_options options = device.options("fails");
      hvd_handle* handle = nullptr;
      ASSERT_EQ(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, nullptr),
                HVD_OK);
      const Failure failure = Job::wait(handle);
      EXPECT_NE(failure.message.find("): cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS"),
                std::string::npos)
          << failure.message;
      EXPECT_NE(failure.message.find("rank " + std::to_string(failure.rank) + " (host "),
                std::string::npos)
          << failure.message;
      job.close();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  fake_cuda::fail("cuEventQuery", 0);
}

}  // namespace
}  // namespace hvd::testing
