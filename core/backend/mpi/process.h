// SPDX-License-Identifier: Apache-2.0
// MPI as this process has it: started by us or found started, ended by whoever started it, called
// from any thread or from a single one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/mpi/api.h"
#include "backend/plugin/plugin.h"

namespace hvd::backend::mpi {

// The state of MPI, which a process has once. Lives until the process ends.
class Process {
 public:
  static Process& get();

  // Loads the library and starts MPI unless that has been done. `needs_launcher`: a process that no
  // MPI launcher started is an error instead of a job of one. Empty on success.
  std::string start(const plugin::Settings& settings, bool needs_launcher);

  const Api& api() const { return *api_; }
  int level() const { return level_; }  // -1: not started
  // A line worth a warning about the threads, or empty.
  std::string thread_warning() const;

  // Runs `call` where MPI may be called, and waits for it.
  void run(const std::function<void()>& call);
  // Calls `test` there again and again until it returns true or unwatch() has returned; only with
  // one thread.
  void watch(const void* owner, std::function<bool()> test);
  void unwatch(const void* owner);
  bool one_thread() const { return one_thread_; }

  // A collective was given up: MPI_Finalize would wait for it for ever.
  void taint() { tainted_ = true; }

 private:
  Process() = default;
  struct Test {
    const void* owner;
    std::function<bool()> run;
  };
  std::string initialize(const plugin::Settings& settings, bool needs_launcher);
  void call_from_one_thread();
  void work();
  static void finalize_at_exit();
  void finalize(int exit_code);

  std::mutex start_mutex_;
  const Api* api_ = nullptr;
  int level_ = -1;
  bool ours_ = false;
  bool one_thread_ = false;
  std::atomic<bool> tainted_{false};

  // The thread, if one_thread_.
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> calls_;
  std::vector<Test> tests_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace hvd::backend::mpi
