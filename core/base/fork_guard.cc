// SPDX-License-Identifier: Apache-2.0
#include "base/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

namespace hvd {
namespace {

size_t page_size() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

ForkGuard::ForkGuard() noexcept : owner_(::getpid()) {
  void* page =
      ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, page_size(), MADV_WIPEONFORK) != 0) {
    ::munmap(page, page_size());
    return;
  }
  *static_cast<char*>(page) = 1;
  page_ = static_cast<const char*>(page);
}

ForkGuard::~ForkGuard() {
  if (page_ != nullptr) ::munmap(const_cast<char*>(page_), page_size());
}

bool ForkGuard::other_process() const noexcept { return ::getpid() != owner_; }

}  // namespace hvd
