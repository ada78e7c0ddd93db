// SPDX-License-Identifier: Apache-2.0
// Tells a forked child from the process that made the guard, at the price of one load. The kernel
// clears the guarded page in the child, so no handler is registered in the process; where it
// cannot, process ids are compared.
#pragma once

#include <sys/types.h>

namespace hvd {

class ForkGuard {
 public:
  ForkGuard() noexcept;
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  // True in a child forked after the guard was made, and in the child's children.
  bool forked() const noexcept { return page_ != nullptr ? *page_ == 0 : other_process(); }

 private:
  bool other_process() const noexcept;

  const volatile char* page_ = nullptr;  // null: not supported here
  pid_t owner_;
};

}  // namespace hvd
