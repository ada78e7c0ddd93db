// SPDX-License-Identifier: Apache-2.0
// Sleeping on a 32-bit word inside one process, with a time limit (which std::atomic::wait lacks).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace hvd {

// Returns when woken, at the deadline, when `word` is not `expected`, or spuriously.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, Time deadline) noexcept;
void futex_wake_all(const std::atomic<uint32_t>& word) noexcept;

}  // namespace hvd
