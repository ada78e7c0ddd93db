// SPDX-License-Identifier: Apache-2.0
// A driver that can not be used is named, and the CPU goes on without it.
#include "device_tensors.h"

namespace hvd::testing {
namespace {

Failure refused(const Job& job) {
  Device device(0);
  const int64_t length = 4;
  const hvd_tensor tensor = device.tensor(device.memory(4), &length);
  const hvd_op_options options = device.options("x");
  hvd_error error = HVD_ERROR_INIT;
  hvd_handle* handle = nullptr;
  return failure_of(hvd_allreduce_async(job.get(), &tensor, &tensor, &options, &handle, &error),
                    error);
}

TEST(Driver, ThatCanNotBeUsed) {
  run_ranks(2, [](Job& job) {
    if (job.rank() == 0) {
      fake_cuda::set_version(10020);
      Failure failure = refused(job);
      EXPECT_EQ(failure.status, HVD_ERR_UNSUPPORTED);
      EXPECT_EQ(failure.message,
                "allreduce \"x\": the CUDA driver (libcuda.so.1, for CUDA 10.2) is too old: CUDA "
                "11.0 is the oldest that is "
                "supported; CPU tensors are not affected");
      fake_cuda::set_version(13000);
      fake_cuda::set_devices(0);
      failure = refused(job);
      EXPECT_EQ(failure.status, HVD_ERR_UNSUPPORTED);
      EXPECT_EQ(failure.message,
                "allreduce \"x\": the CUDA driver shows no device; CUDA_VISIBLE_DEVICES may hide "
                "it; CPU tensors are not affected");
      fake_cuda::set_devices(2);
      fake_cuda::fail("cuInit", 100);
      EXPECT_EQ(refused(job).message,
                "allreduce \"x\": the CUDA driver does not start: CUDA_ERROR_OTHER, an error of "
                "the stand-in; CPU tensors are not "
                "affected");
      fake_cuda::fail("cuInit", 0);
    }
    std::vector<float> data(10, 1.0f);
    EXPECT_EQ(job.sum(data, "cpu").status, HVD_OK);
    EXPECT_EQ(data, std::vector<float>(10, 2.0f));
  });
}

}  // namespace
}  // namespace hvd::testing
