// SPDX-License-Identifier: Apache-2.0
// Fresh directories, addresses and names for tests of stores, and child processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/store_settings.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {

using namespace std::chrono_literals;

// A directory that is removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hvd-store-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline int next_number() {
  static std::atomic<int> number{0};
  return ++number;
}

// An address that no other test process uses at the same time: the process id is part of it.
inline TcpUrl fresh_tcp_url() {
  const unsigned pid = static_cast<unsigned>(::getpid());
  const std::string host = "127." + std::to_string(1 + (pid >> 16) % 250) + "." +
                           std::to_string((pid >> 8) & 255) + "." +
                           std::to_string(1 + (pid & 255) % 254);
  return {{{host, static_cast<uint16_t>(20000 + next_number() % 10000)}}, "job"};
}

// Without a secret.
inline StoreSettings settings_of(int rank, int size, Time deadline) {
  StoreSettings settings;
  settings.rank = rank;
  settings.size = size;
  settings.deadline = deadline;
  return settings;
}

inline std::string fresh_name() {
  return "test-" + std::to_string(::getpid()) + "-" + std::to_string(next_number());
}

// Processes that end when their body returns; exit code 0 means success.
class Children {
 public:
  ~Children() { EXPECT_TRUE(pids_.empty()) << "wait() was not called"; }

  template <class Body>
  void start(Body body) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(body());
    ASSERT_GT(pid, 0);
    pids_.push_back(pid);
  }
  pid_t pid(size_t index) const { return pids_[index]; }

  std::vector<int> wait() {
    std::vector<int> codes;
    for (const pid_t pid : pids_) {
      int status = -1;
      EXPECT_EQ(::waitpid(pid, &status, 0), pid);
      codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    pids_.clear();
    return codes;
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace hvd::rendezvous
