// SPDX-License-Identifier: Apache-2.0
#include "device/image.h"

namespace hvd::device {

std::span<const unsigned char> kernel_image() noexcept { return {}; }

}  // namespace hvd::device
