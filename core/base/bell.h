// SPDX-License-Identifier: Apache-2.0
// Waking whoever polls an eventfd.
#pragma once

namespace hvd {

// Adds one to it. Fails only where the counter is full, and then he has been woken anyway.
void ring(int eventfd) noexcept;

}  // namespace hvd
