// SPDX-License-Identifier: Apache-2.0
#include "base/platform.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <thread>

namespace hvd {
namespace {

// The kernel's words about the calling thread: 32 bits of size, policy, 64 of flags, 32 of nice, priority, then 64 of runtime.
std::array<uint64_t, 6> scheduling() {
  std::array<uint64_t, 6> words{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, words.data(), sizeof words, 0U), 0);
  return words;
}

TEST(Platform, ShortTurnsChangeTheTurnAndNothingElse) {
  std::thread([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0);  // of this thread only
    const std::array<uint64_t, 6> before = scheduling();
    prefer_short_turns();
    std::array<uint64_t, 6> after = scheduling();
    if (before[3] == 0) GTEST_SKIP() << "this kernel has no length of turns (Linux 6.12)";
    EXPECT_EQ(after[3], kShortTurnNs);
    after[3] = before[3];
    EXPECT_EQ(after, before);
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 5);
  }).join();
}

}  // namespace
}  // namespace hvd
