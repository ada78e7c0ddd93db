// SPDX-License-Identifier: Apache-2.0
// Buffers with an unmapped page on either side: a kernel that reads or writes outside its buffer
// crashes, with or without sanitizers.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "reference.h"

namespace hvd::kernels::test {

class Slot {
 public:
  static constexpr size_t kRoom = size_t{1} << 17;

  Slot() {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = kRoom + 2 * page;
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    room_ = base_ + page;
    mprotect(room_, kRoom, PROT_READ | PROT_WRITE);
  }
  ~Slot() { munmap(base_, bytes_); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // Where to put `size` bytes. `at` < 64 is the distance from an aligned address behind the first
  // guard page; 64 and above puts the end right before the second guard page.
  unsigned char* place(size_t size, size_t at) {
    start_ = at < 64 ? room_ + at : room_ + kRoom - size;
    size_ = size;
    std::memset(before(), kCanary, static_cast<size_t>(start_ - before()));
    std::memset(start_, kCanary, size);
    std::memset(start_ + size, kCanary, static_cast<size_t>(after() - (start_ + size)));
    return start_;
  }
  unsigned char* place(const unsigned char* data, size_t size, size_t at) {
    place(size, at);
    if (size > 0) std::memcpy(start_, data, size);
    return start_;
  }

  bool holds(const unsigned char* expected) const {
    return size_ == 0 || std::memcmp(start_, expected, size_) == 0;
  }
  bool surroundings_untouched() const {
    const auto is_canary = [](unsigned char byte) { return byte == kCanary; };
    return std::all_of(before(), start_, is_canary) &&
           std::all_of(start_ + size_, after(), is_canary);
  }

 private:
  static constexpr unsigned char kCanary = 0xa5;
  static constexpr size_t kMargin = 256;

  unsigned char* before() const {
    return std::max(room_, start_ - std::min<size_t>(kMargin, start_ - room_));
  }
  unsigned char* after() const {
    const size_t left = static_cast<size_t>(room_ + kRoom - (start_ + size_));
    return start_ + size_ + std::min(kMargin, left);
  }

  size_t bytes_ = 0;
  unsigned char* base_ = nullptr;
  unsigned char* room_ = nullptr;
  unsigned char* start_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hvd::kernels::test
