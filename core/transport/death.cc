// SPDX-License-Identifier: Apache-2.0
#include "transport/death.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace hvd::transport {
namespace {

// struct pidfd_info of <linux/pidfd.h> as of Linux 6.13, which older headers lack.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup;
  uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kInfoExit = 8;  // PIDFD_INFO_EXIT, Linux 6.15
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

std::string read_small_file(const std::string& path) {
  std::string text(4096, '\0');
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : -1;
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

// The wait status kept by a process nobody has waited for yet: the last field of /proc/PID/stat.
std::optional<int> status_of_zombie(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const std::string text = read_small_file("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = text.rfind(')');  // the name before it may contain anything
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  const char state = text[name_end + 2];
  if (state != 'Z' && state != 'X') return std::nullopt;
  const size_t last = text.find_last_of(' ', text.find_last_not_of(" \n"));
  return std::atoi(text.c_str() + last + 1);
}

// The same of a process that has been waited for.
std::optional<int> status_of_reaped(int pidfd) {
  PidfdInfo info{};
  info.mask = kInfoExit;
  if (::ioctl(pidfd, kGetInfo, &info) != 0 || (info.mask & kInfoExit) == 0) return std::nullopt;
  return info.exit_code;
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* name = ::sigabbrev_np(number);
    return "was killed by signal " + std::to_string(number) +
           (name != nullptr ? std::string(" (SIG") + name + ")" : "");
  }
  return "exited with code " + std::to_string(WEXITSTATUS(status)) + " without shutting down";
}

}  // namespace

Fd own_pidfd() { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))); }

pid_t visible_pid(int pidfd) {
  const std::string text = read_small_file("/proc/self/fdinfo/" + std::to_string(pidfd));
  constexpr std::string_view kField = "\nPid:";
  const size_t at = text.find(kField);
  if (at == std::string::npos) return -1;
  const int pid = std::atoi(text.c_str() + at + kField.size());
  return pid > 0 ? pid : -1;
}

bool has_ended(int pidfd) {
  pollfd entry{pidfd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

bool is_ending(int pidfd) {
  if (has_ended(pidfd)) return true;
  const std::string text = read_small_file("/proc/" + std::to_string(visible_pid(pidfd)) + "/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  constexpr unsigned kExiting = 4;  // PF_EXITING of the kernel
  char state = 0;
  unsigned flags = 0;
  return std::sscanf(text.c_str() + name_end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) ==
             2 &&
         (state == 'Z' || state == 'X' || (flags & kExiting) != 0);
}

std::optional<std::string> how_it_ended(int pidfd) {
  std::optional<int> status = status_of_reaped(pidfd);
  if (!status) status = status_of_zombie(visible_pid(pidfd));
  if (!status) status = status_of_reaped(pidfd);  // waited for between the two
  if (!status) return std::nullopt;
  return describe(*status);
}

}  // namespace hvd::transport
