// SPDX-License-Identifier: Apache-2.0
// Starts ranks as processes, talks with them line by line, kills them, and leaves nothing behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace hvd::testing {

int64_t monotonic_ns();

// A new folder that goes away with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One process. The destructor kills what still runs.
class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void order(const std::string& line);
  // The next line that begins with `prefix`; earlier ones are dropped. "" after the time or at the
  // end of the output.
  std::string expect(const std::string& prefix, int64_t timeout_ns = 10'000'000'000);
  // All lines with the prefix until `last` has come, which ends the list.
  std::vector<std::string> until(const std::string& prefix, const std::string& last,
                                 int64_t timeout_ns = 10'000'000'000);
  // The wait status; -1 if the process had to be killed after the time.
  int wait(int64_t timeout_ns = 10'000'000'000);
  // What it said last, for messages.
  const std::string& said() const { return said_; }

 private:
  bool next_line(std::string* line, int64_t deadline);

  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
  int in_ = -1;
  int out_ = -1;
  std::string buffer_;
  std::string said_;
};

// Path of the victim program, from the command line.
std::string& victim_path();

// Names in /dev/shm, to compare before and after.
std::vector<std::string> shared_memory_files();

}  // namespace hvd::testing
