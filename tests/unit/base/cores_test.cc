// SPDX-License-Identifier: Apache-2.0
#include "base/cores.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <thread>

namespace hvd {
namespace {

constexpr size_t kSlice = 3;  // the word that is the length of a time slice

// The kernel's words about the calling thread: 32 bits of size, policy, 64 of flags, 32 of nice,
// priority, then 64 of runtime.
std::array<uint64_t, 6> scheduling() {
  std::array<uint64_t, 6> words{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, words.data(), sizeof words, 0U), 0);
  return words;
}

TEST(Cores, ShortSlicesChangeTheSliceAndNothingElse) {
  std::thread([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0);  // of this thread only
    std::array<uint64_t, 6> before = scheduling();
    if (before[kSlice] == 0)
      GTEST_SKIP() << "this kernel has no length of time slices (Linux 6.12)";
    before[kSlice] = 2 * kShortSliceNs;  // the usual one may be the short one
    ASSERT_EQ(syscall(SYS_sched_setattr, 0, before.data(), 0U), 0);
    ASSERT_EQ(scheduling(), before);
    prefer_short_slices();
    std::array<uint64_t, 6> after = scheduling();
    EXPECT_EQ(after[kSlice], kShortSliceNs);
    after[kSlice] = before[kSlice];
    EXPECT_EQ(after, before);
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 5);
  }).join();
}

}  // namespace
}  // namespace hvd
