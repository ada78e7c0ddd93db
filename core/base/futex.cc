// SPDX-License-Identifier: Apache-2.0
#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace hvd {

void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, Time deadline) noexcept {
  timespec until{};
  if (deadline != kNever) {
    const auto since_epoch = deadline.time_since_epoch().count();
    until.tv_sec = since_epoch / 1000000000;
    until.tv_nsec = since_epoch % 1000000000;
  }
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, so that restarts do not stretch the
  // wait.
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
          deadline == kNever ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_all(const std::atomic<uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hvd
