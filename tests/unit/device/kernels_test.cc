// SPDX-License-Identifier: Apache-2.0
// Our kernels, run by the stand-in.
#include "device/kernels.h"

#include <gtest/gtest.h>

#include "fake_cuda.h"
#include "kernel_checks.h"

namespace hvd::device {
namespace {

using Segment = Kernels::Segment;

constexpr const char* kAnyFile = "/proc/version";  // the stand-in runs the kernels that we have

class KernelsTest : public ::testing::Test {
 protected:
  KernelsTest() {
    fake_cuda::set_devices(2);
    gpu_ = std::move(gpu::Gpu::open()).value();
  }
  ~KernelsTest() override {
    gpu_.reset();
    EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
    EXPECT_EQ(fake_cuda::graphs(), 0);
  }

  std::unique_ptr<Kernels> kernels() {
    return std::move(Kernels::load(gpu_->device(), kAnyFile)).value();
  }
  std::string refusal(const std::string& from) {
    return Kernels::load(gpu_->device(), from).status().message();
  }
  static std::vector<std::string> take_launches() {
    std::vector<std::string> calls = fake_cuda::take_calls();
    std::erase_if(calls,
                  [](const std::string& call) { return !call.starts_with("cuLaunchKernel"); });
    return calls;
  }

  std::unique_ptr<gpu::Gpu> gpu_;
};

TEST_F(KernelsTest, CopiesEveryByteAndNoOther) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  take_launches();
  EXPECT_EQ(check_copies(*gpu_, *kernels), "");
  // Three for the segments of each alignment.
  EXPECT_EQ(take_launches(), std::vector<std::string>(9, "cuLaunchKernel hvd_copy " +
                                                             fake_cuda::name_of(gpu_->stream())));
}

TEST_F(KernelsTest, NothingToCopyIsNoLaunch) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  fake_cuda::take_calls();
  EXPECT_TRUE(kernels->copy(gpu_->stream(), {}).ok());
  EXPECT_TRUE(kernels->copy(gpu_->stream(), std::vector<Segment>(200)).ok());
  EXPECT_EQ(fake_cuda::take_calls(), std::vector<std::string>());
}

TEST_F(KernelsTest, ScaleAsTheCpuDoes) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  for (const DType dtype : gpu::kScaled) {
    ASSERT_TRUE(Kernels::scales(dtype));
    EXPECT_EQ(check_products(*gpu_, *kernels, dtype), "");
  }
  EXPECT_FALSE(Kernels::scales(DType::kBool));
  EXPECT_FALSE(Kernels::scales(DType::kInt16));
}

TEST_F(KernelsTest, AdasumByItsDefinition) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  EXPECT_EQ(check_adasum(*gpu_, *kernels), "");
}

TEST_F(KernelsTest, ArePartOfAGraph) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  for (const int mode : {gpu::kCaptureGlobal, gpu::kCaptureThreadLocal, gpu::kCaptureRelaxed}) {
    EXPECT_EQ(check_graph(*gpu_, *kernels, mode), "");
  }
}

TEST_F(KernelsTest, SaysWhyThereAreNone) {
  EXPECT_EQ(refusal("none"), "cuda_kernels is none");
  EXPECT_EQ(refusal("/nowhere"), "/nowhere can not be read, or is empty");
  fake_cuda::fail("cuModuleLoadData", 209);
  EXPECT_EQ(refusal(kAnyFile), "cuModuleLoadData: CUDA_ERROR_OTHER, an error of the stand-in");
  fake_cuda::fail("cuModuleLoadData", 0);
  fake_cuda::fail("cuModuleGetFunction", 500, 3);
  EXPECT_EQ(refusal(kAnyFile), "hvd_scale_int32: CUDA_ERROR_OTHER, an error of the stand-in");
  fake_cuda::fail("cuModuleGetFunction", 0);
  EXPECT_EQ(fake_cuda::modules(), 0);
}

TEST_F(KernelsTest, LetGoOfTheirModule) {
  std::unique_ptr<Kernels> kernels = this->kernels();
  EXPECT_EQ(fake_cuda::modules(), 1);
  kernels.reset();
  EXPECT_EQ(fake_cuda::modules(), 0);
}

TEST_F(KernelsTest, ALaunchThatFails) {
  const std::unique_ptr<Kernels> kernels = this->kernels();
  auto* both = gpu_->memory(16);
  fake_cuda::fail("cuLaunchKernel", 700);
  const Status failed = kernels->copy(gpu_->stream(), std::vector<Segment>{{both, both, 16}});
  fake_cuda::fail("cuLaunchKernel", 0);
  EXPECT_EQ(failed.code(), Code::kIo);
  EXPECT_EQ(failed.message(), "hvd_copy: CUDA_ERROR_ILLEGAL_ADDRESS, an error of the stand-in");
}

}  // namespace
}  // namespace hvd::device
