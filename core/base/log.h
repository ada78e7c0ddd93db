// SPDX-License-Identifier: Apache-2.0
// Log lines go to one callback and nowhere else; without one, logging costs a comparison.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace hvd {

enum class LogLevel : int32_t { kError = 0, kWarn = 1, kInfo = 2, kDebug = 3, kTrace = 4 };

// Owned by the context and shared by its layers. Thread safe; calls the sink one line at a time.
class Logger {
 public:
  using Sink = std::function<void(LogLevel, int rank, const char* component, const char* message)>;
  Logger() = default;
  Logger(Sink sink, LogLevel level) : sink_(std::move(sink)), level_(level) {}

  void set_rank(int rank) { rank_ = rank; }
  bool enabled(LogLevel level) const { return sink_ && level <= level_; }
  void write(LogLevel level, const char* component, const std::string& message) const {
    if (!enabled(level)) return;
    const MutexLock one_at_a_time(mutex_);
    sink_(level, rank_, component, message.c_str());
  }

 private:
  Sink sink_;
  LogLevel level_ = LogLevel::kWarn;
  std::atomic<int> rank_{-1};  // a thread of the store may log while it becomes known
  mutable Mutex mutex_;        // held while the sink runs
};

}  // namespace hvd
