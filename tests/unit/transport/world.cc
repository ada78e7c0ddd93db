// SPDX-License-Identifier: Apache-2.0
#include "unit/transport/world.h"

#include <poll.h>

namespace hvd::transport::testing {

bool sleep_until(Fabric& fabric, Sink& sink, const std::function<bool()>& done, Duration limit) {
  const Time end = now() + limit;
  while (true) {
    while (fabric.poll(sink)) {
    }
    if (done()) return true;
    if (now() > end) return false;
    if (fabric.park_begin()) {
      pollfd entry{fabric.wait_fd(), POLLIN, 0};
      ::poll(&entry, 1, static_cast<int>(limit / 1ms));
    }
    fabric.park_end();
  }
}

}  // namespace hvd::transport::testing
