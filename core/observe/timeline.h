// SPDX-License-Identifier: Apache-2.0
// The timeline of this rank: while it is on, a thread turns what the flight recorder keeps into
// events in a file. The engine is not asked to measure or to wait for anything.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/engine.h"
#include "observe/clock_offset.h"
#include "observe/trace_events.h"
#include "observe/trace_file.h"

namespace hvd::observe {

// The file of a rank: rank 0's is the path itself, and rank 1's "folder/name.rank1.json" for
// "folder/name.json".
std::string file_of_rank(const std::string& path, int rank);

class Timeline {
 public:
  Timeline(std::shared_ptr<engine::Engine> engine, std::shared_ptr<const Logger> log,
           ClockOffset clock);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Begins this rank's file for that path; another one that is being written ends. Nothing changes
  // if the file of that path is being written already.
  Status start(const std::string& path, bool mark_cycles);
  // Writes what has ended until now and ends the file. An error says what could not be written.
  Status stop();
  // The same when the rank leaves the job. The log has a warning of an error already.
  void end();

 private:
  class Writer;

  Status end_writer() HVD_REQUIRES(mutex_);

  const std::shared_ptr<engine::Engine> engine_;
  const std::shared_ptr<const Logger> log_;
  const ClockOffset clock_;
  Mutex mutex_;
  std::unique_ptr<Writer> writer_ HVD_GUARDED_BY(mutex_);  // null while no file is written
};

}  // namespace hvd::observe
