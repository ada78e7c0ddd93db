// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <sys/resource.h>

#include <cerrno>
#include <string>

namespace hvd {

Status thread_error(std::string_view what, int number) {
  Status status = io_error("cannot start " + std::string(what), number);
  if (number != EAGAIN) return status;
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return Status(status.code(),
                status.message() +
                    "; a rank needs up to 3 threads of its own, and this user may have " +
                    (known ? std::to_string(limit.rlim_cur) : "no limited number of") +
                    " processes and threads (RLIMIT_NPROC; ulimit -u raises it), or the container "
                    "has a limit "
                    "(pids.max of its cgroup, docker run --pids-limit)")
      .with_errno(number);
}

}  // namespace hvd
