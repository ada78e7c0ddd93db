// SPDX-License-Identifier: Apache-2.0
// A tensor of a CUDA device on a machine without a driver. With a stand-in for the driver:
// tests/unit/device.
#include <dlfcn.h>

#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

TEST(DeviceTensor, IsRefusedWithoutADriver) {
  if (::dlopen("libcuda.so.1", RTLD_NOW) != nullptr)
    GTEST_SKIP() << "this machine has a CUDA driver";
  run_ranks(1, [](Job& job) {
    float here[4] = {1, 2, 3, 4};
    const int64_t length = 4;
    hvd_tensor tensor = tensor_of(here, &length, 1, HVD_FLOAT32);
    tensor.device_type = HVD_CUDA;
    const hvd_op_options options = named("x");
    hvd_error error = HVD_ERROR_INIT;
    hvd_handle* handle = nullptr;
    EXPECT_EQ(hvd_allreduce_async(job.get(), &tensor, nullptr, &options, &handle, &error),
              HVD_ERR_UNSUPPORTED);
    const std::string message = error.message;
    EXPECT_EQ(
        message.find("allreduce \"x\": there is no CUDA driver on this machine (libcuda.so.1: "),
        0u)
        << message;
    EXPECT_NE(message.find("; CPU tensors are not affected"), std::string::npos) << message;
    std::vector<float> sum(4, 1.0f);
    EXPECT_EQ(job.sum(sum, "x").status, HVD_OK);
  });
}

}  // namespace
}  // namespace hvd::testing
