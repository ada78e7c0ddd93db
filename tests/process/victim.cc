// SPDX-License-Identifier: Apache-2.0
// victim PART rank=R size=N folder=DIR [name=value ...]; option:NAME=VALUE is given to hvd_init.
#include "process/victim.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace hvd::testing {

void say(const char* format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  const size_t size = std::min(static_cast<size_t>(length), sizeof line - 2);
  line[size] = '\n';
  [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, line, size + 1);
}

std::string hear() {
  std::string line;
  if (!std::getline(std::cin, line)) ::_exit(90);  // the driver has gone
  return line;
}

int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

void sleep_ms(int milliseconds) { ::usleep(static_cast<useconds_t>(milliseconds) * 1000); }

void give_up(const char* file, int line, const char* what, const Failure& failure) {
  say("fail %s:%d: %s: %s %s", file, line, what, hvd_status_name(failure.status),
      failure.message.c_str());
  ::_exit(91);
}

void open_job(Job& job, const Setting& setting) {
  VICTIM_OK(job.open(setting.url(), setting.rank, setting.size, setting.options));
}

void expect_sum(const Job& job, size_t length, const char* name, hvd_process_set* set) {
  std::vector<int32_t> ranks(static_cast<size_t>(job.size()));
  size_t count = ranks.size();
  hvd_process_set* const of = set == nullptr ? hvd_process_set_world(job.get()) : set;
  VICTIM_CHECK(hvd_process_set_ranks(of, ranks.data(), &count, nullptr) == HVD_OK);
  float of_ranks = 0;
  for (size_t i = 0; i < count; ++i) of_ranks += static_cast<float>(ranks[i] + 1);
  std::vector<float> data(length);
  for (size_t i = 0; i < length; ++i)
    data[i] = static_cast<float>(i % 97) * static_cast<float>(job.rank() + 1);
  VICTIM_OK(job.sum(data, name, set));
  for (size_t i = 0; i < length; ++i)
    VICTIM_CHECK(data[i] == static_cast<float>(i % 97) * of_ranks);
}

}  // namespace hvd::testing

int main(int argc, char** argv) {
  using namespace hvd::testing;
  const std::map<std::string, int (*)(const Setting&)> parts = {
      {"stream", play_stream},   {"init", play_init},     {"stop", play_stop},
      {"leave", play_leave},     {"idle", play_idle},     {"mismatch", play_mismatch},
      {"timeout", play_timeout}, {"stall", play_stall},   {"sets", play_sets},
      {"churn", play_churn},     {"hosts", play_hosts},   {"huge", play_huge},
      {"secret", play_secret},   {"frozen", play_frozen}, {"limited", play_limited},
  };
  Setting setting;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    setting.arguments[argument.substr(0, equals)] = argument.substr(equals + 1);
    if (argument.rfind("option:", 0) == 0) {
      setting.options.emplace_back(argument.substr(7, equals - 7), argument.substr(equals + 1));
    }
  }
  const auto part = parts.find(argc > 1 ? argv[1] : "");
  if (part == parts.end()) {
    std::fprintf(stderr, "victim: no part \"%s\"\n", argc > 1 ? argv[1] : "");
    return 2;
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  setting.rank = setting.number("rank", 0);
  setting.size = setting.number("size", 1);
  setting.folder = setting.text("folder", "");
  return part->second(setting);
}
