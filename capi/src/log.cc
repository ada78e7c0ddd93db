// SPDX-License-Identifier: Apache-2.0
#include <hvd/hvd.h>
#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

// A pipe takes this many bytes in one piece, so that the lines of several ranks do not mix there.
constexpr size_t kLongestLine = 4096;

bool wants_time() {
  // The environment is asked once: a program may change its environment later, while another thread
  // would read it.
  static const bool wanted = [] {
    const char* hidden = std::getenv("HOROVOD_LOG_HIDE_TIME");
    return hidden == nullptr || std::atoi(hidden) <= 0;
  }();
  return wanted;
}

// The text "2026-01-31 23:59:59.123456: "; empty if no time is wanted.
std::array<char, 64> time_text() {
  std::array<char, 64> text{};
  if (!wants_time()) return text;
  timeval now{};
  gettimeofday(&now, nullptr);
  std::tm local{};
  localtime_r(&now.tv_sec, &local);
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  std::snprintf(text.data() + length, text.size() - length,
                ".%06ld: ", static_cast<long>(now.tv_usec));
  return text;
}

bool has_room(int fd) {
  pollfd asked{fd, POLLOUT, 0};
  return poll(&asked, 1, 0) == 1 && (asked.revents & POLLOUT) != 0;
}

}  // namespace

void hvd_log_to_fd(void* user_data, hvd_log_level level, int32_t rank, const char* component,
                   const char* message) {
  const int fd = user_data == nullptr ? STDERR_FILENO
                                      : static_cast<int>(reinterpret_cast<intptr_t>(user_data));
  if (component == nullptr || message == nullptr || !has_room(fd)) return;
  const char letter = level >= HVD_LOG_ERROR && level <= HVD_LOG_TRACE ? "EWIDT"[level] : '?';
  std::array<char, 32> place{};
  if (rank >= 0) std::snprintf(place.data(), place.size(), " [%d]:", static_cast<int>(rank));
  std::array<char, kLongestLine> line;
  const int wanted = std::snprintf(line.data(), line.size(), "[%s%c %s]%s %s\n", time_text().data(),
                                   letter, component, place.data(), message);
  if (wanted < 0) return;
  const size_t length = std::min(static_cast<size_t>(wanted), line.size());
  line[length - 1] = '\n';
  [[maybe_unused]] const ssize_t written = write(fd, line.data(), length);
}
