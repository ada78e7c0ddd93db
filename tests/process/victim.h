// SPDX-License-Identifier: Apache-2.0
// The program that the process tests start once per rank. It uses nothing but hvd.h, takes orders
// on standard input and answers on standard output, one line each.
#pragma once

#include <map>
#include <string>

#include "process/job.h"

namespace hvd::testing {

using Arguments = std::map<std::string, std::string>;

struct Setting {
  std::string folder;
  int rank = 0;
  int size = 1;
  Job::Settings options;
  Arguments arguments;

  std::string url() const { return "file://" + folder; }
  std::string text(const char* name, const char* otherwise) const {
    const auto found = arguments.find(name);
    return found == arguments.end() ? otherwise : found->second;
  }
  int number(const char* name, int otherwise) const {
    return std::stoi(text(name, std::to_string(otherwise).c_str()));
  }
};

// A line to the driver, at once. Never blocks for long: a line fits into a pipe.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
// The next line from the driver; the process ends if there will be none.
std::string hear();
int64_t now_ns();
void sleep_ms(int milliseconds);
// "fail <file:line> <what>" and the end of the process.
[[noreturn]] void give_up(const char* file, int line, const char* what, const Failure& failure);

#define VICTIM_CHECK(condition)                                                    \
  do {                                                                             \
    if (!(condition)) ::hvd::testing::give_up(__FILE__, __LINE__, #condition, {}); \
  } while (0)
#define VICTIM_OK(call)                                                                         \
  do {                                                                                          \
    if (const ::hvd::testing::Failure victim_failure = (call); victim_failure.status != HVD_OK) \
      ::hvd::testing::give_up(__FILE__, __LINE__, #call, victim_failure);                       \
  } while (0)

void open_job(Job& job, const Setting& setting);
// Fails the process unless a sum of `length` values is right.
void expect_sum(const Job& job, size_t length, const char* name, hvd_process_set* set = nullptr);

// What a victim can be told to play; see the tests.
int play_stream(const Setting& setting);
int play_init(const Setting& setting);
int play_stop(const Setting& setting);
int play_leave(const Setting& setting);
int play_idle(const Setting& setting);
int play_mismatch(const Setting& setting);
int play_timeout(const Setting& setting);
int play_stall(const Setting& setting);
int play_frozen(const Setting& setting);
int play_sets(const Setting& setting);
int play_churn(const Setting& setting);
int play_hosts(const Setting& setting);
int play_huge(const Setting& setting);
int play_secret(const Setting& setting);
int play_limited(const Setting& setting);

}  // namespace hvd::testing
