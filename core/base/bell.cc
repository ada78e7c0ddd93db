// SPDX-License-Identifier: Apache-2.0
#include "base/bell.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace hvd {

void ring(int eventfd) noexcept {
  const uint64_t one = 1;
  while (::write(eventfd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

}  // namespace hvd
