// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <fcntl.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hvd {
namespace {

// A bit for each descriptor number below kMost. Higher numbers are not looked after, which only
// delays the news of a death where a child lives on. The pages that nobody has touched take no
// memory.
constexpr size_t kMost = size_t{1} << 20;
constexpr size_t kBits = 64;
std::array<std::atomic<uint64_t>, kMost / kBits> owned;
std::atomic<size_t> words_used{0};

// A child that lives on holds its parent's connections open: the other ranks would not see them
// close when the parent dies. The numbers stay taken, so that whatever the child does to objects of
// its parent hits nothing of its own.
void let_go_in_child() {
  int nothing = -1;
  for (size_t word = 0; word < words_used.load(std::memory_order_relaxed); ++word) {
    const uint64_t bits = owned[word].load(std::memory_order_relaxed);
    for (size_t bit = 0; bits >> bit != 0 && bit < kBits; ++bit) {
      if ((bits >> bit & 1) == 0) continue;
      if (nothing < 0) nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      const int number = static_cast<int>(word * kBits + bit);
      if (nothing >= 0) {
        ::dup3(nothing, number, O_CLOEXEC);
      } else {
        ::close(number);
      }
    }
  }
  if (nothing >= 0) ::close(nothing);
}

}  // namespace

void own_descriptor(int number) noexcept {
  // Where there is no memory for that, a child keeps what it has inherited.
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, &let_go_in_child);
  const size_t word = static_cast<size_t>(number) / kBits;
  if (word >= owned.size()) return;
  owned[word].fetch_or(uint64_t{1} << (static_cast<size_t>(number) % kBits),
                       std::memory_order_relaxed);
  size_t used = words_used.load(std::memory_order_relaxed);
  while (used <= word &&
         !words_used.compare_exchange_weak(used, word + 1, std::memory_order_relaxed))
    continue;
}

void disown_descriptor(int number) noexcept {
  const size_t word = static_cast<size_t>(number) / kBits;
  if (word < owned.size())
    owned[word].fetch_and(~(uint64_t{1} << (static_cast<size_t>(number) % kBits)),
                          std::memory_order_relaxed);
}

}  // namespace hvd
