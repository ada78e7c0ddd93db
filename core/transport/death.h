// SPDX-License-Identifier: Apache-2.0
// Process ends, seen through a pidfd: works for processes that are not our children, has no reuse
// of numbers, and is not kept quiet by a forked child that holds the dead process's sockets.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/fd.h"

namespace hvd::transport {

// For this process, to hand to others; empty where the kernel has none.
Fd own_pidfd();
// The number of the process in our /proc, or -1 if it is not visible there.
pid_t visible_pid(int pidfd);

bool has_ended(int pidfd);
// True while the system takes the process apart: the descriptors are closed by then, but the news
// of the end may not have come.
bool is_ending(int pidfd);
// How a process that has ended did so: "was killed by signal 9 (SIGKILL)", "exited with code 3
// without shutting down". Nothing if the system does not say, or not yet.
std::optional<std::string> how_it_ended(int pidfd);

}  // namespace hvd::transport
