// SPDX-License-Identifier: Apache-2.0
#include "base/allowance.h"

#include <dirent.h>
#include <sys/resource.h>

#include <cerrno>

namespace hvd {
namespace {

// So many descriptors are enough for any job: a process that may have more need not count.
constexpr rlim_t kPlenty = 1 << 17;

}  // namespace

int64_t free_descriptors(int64_t* limit) {
  *limit = -1;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kPlenty) return -1;
  DIR* const open = ::opendir("/proc/self/fd");
  if (open == nullptr && errno != EMFILE) return -1;
  *limit = static_cast<int64_t>(files.rlim_cur);
  if (open == nullptr) return 0;
  int64_t used = -3;  // ".", ".." and the folder itself
  while (::readdir(open) != nullptr) ++used;
  ::closedir(open);
  return *limit - used;
}

}  // namespace hvd
