// SPDX-License-Identifier: Apache-2.0
// Ranks that each have a device of their own, and the stand-in for NCCL between them.
#pragma once

#include "fake_nccl.h"
#include "unit/device/met_ranks.h"

namespace hvd::testing {

inline constexpr int kDevices = 4;
inline constexpr int kSystemError = 2;  // of the library
// For the option cuda_kernels: a file, of which the stand-in for the driver runs the kernels that
// we have.
inline constexpr const char* kKernelFile = "/proc/version";

class Nccl : public ::testing::Test {
 protected:
  Nccl() {
    fake_cuda::set_devices(kDevices);
    fake_nccl::reset();
  }
  ~Nccl() override {
    EXPECT_EQ(fake_cuda::faults(), std::vector<std::string>());
    EXPECT_EQ(fake_nccl::faults(), std::vector<std::string>());
    EXPECT_EQ(fake_nccl::comms(), 0u);
  }
};

}  // namespace hvd::testing
