// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <string>

namespace hvd::python {
namespace {

std::string time_text() {
  timeval now{};
  gettimeofday(&now, nullptr);
  std::tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 32> seconds{};
  std::strftime(seconds.data(), seconds.size(), "%Y-%m-%d %H:%M:%S", &local);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s.%06ld: ", seconds.data(),
                static_cast<long>(now.tv_usec));
  return text.data();
}

}  // namespace

void write_log_line(void* user_data, hvd_log_level level, int32_t rank, const char* component,
                    const char* message) {
  const auto* settings = static_cast<const LogSettings*>(user_data);
  if (level > settings->level) return;
  constexpr const char kLetters[] = "EWIDT";
  const char letter = level >= 0 && level <= HVD_LOG_TRACE ? kLetters[level] : '?';
  std::string line = "[";
  if (settings->show_time) line += time_text();
  line += std::string{letter} + ' ' + component + ']';
  if (rank >= 0) line += " [" + std::to_string(rank) + "]:";
  line += std::string{' '} + message + '\n';
  // One write, so that lines of several ranks on one terminal do not mix.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace hvd::python
