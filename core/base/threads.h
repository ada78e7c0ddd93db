// SPDX-License-Identifier: Apache-2.0
// Threads of the library, and what to say where the system allows no more.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace hvd {

// Names the limit that forbids another thread, and how to raise it. `what` reads on after "cannot
// start ".
Status thread_error(std::string_view what, int number);

// Starts `body` in `thread`.
template <class Body>
Status start_thread(Body&& body, std::string_view what, std::thread* thread) {
  try {
    *thread = std::thread(std::forward<Body>(body));
  } catch (const std::system_error& caught) {
    return thread_error(what, caught.code().value());
  }
  return {};
}

}  // namespace hvd
