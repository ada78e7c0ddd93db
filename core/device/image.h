// SPDX-License-Identifier: Apache-2.0
// Our kernels for the driver to load, as nvcc has compiled device/cuda/kernels.cu. Empty in a build
// without nvcc.
#pragma once

#include <span>

namespace hvd::device {

std::span<const unsigned char> kernel_image() noexcept;

}  // namespace hvd::device
