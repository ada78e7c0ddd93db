// SPDX-License-Identifier: Apache-2.0
// One file of a timeline, and the thread that writes it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/status.h"
#include "engine/engine.h"
#include "observe/timeline.h"
#include "observe/trace_events.h"
#include "observe/trace_file.h"

namespace hvd::observe {

class Timeline::Writer {
 public:
  Writer(engine::Engine& engine, engine::FlightRecorder& recorder, const Logger& log,
         std::string path, TraceHead head);
  ~Writer() { join(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Makes the file and starts the thread.
  Status start();
  // Ends the thread, and writes what has ended until now.
  Status finish();
  const std::string& path() const { return path_; }

 private:
  void run() noexcept;
  void join();
  void drain();
  void take(const engine::FlightRecorder::Entry& entry, const engine::RecordClock& clock);
  void write();

  engine::Engine& engine_;
  engine::FlightRecorder& recorder_;
  const Logger& log_;
  const std::string path_;
  const int64_t start_;  // nanoseconds of CLOCK_MONOTONIC
  TraceFile file_;
  TraceEvents events_;
  Elements unwritten_;
  uint64_t read_ = 0;  // number of the last record that has been taken
  uint64_t lost_ = 0;  // records that are missing in the file, and of which it does not tell yet
  Status trouble_;     // why the last write failed
  bool warned_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace hvd::observe
