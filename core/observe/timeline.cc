// SPDX-License-Identifier: Apache-2.0
#include "observe/timeline.h"

#include <unistd.h>

#include <cctype>
#include <chrono>
#include <utility>

#include "observe/timeline_writer.h"

namespace hvd::observe {

namespace {

int64_t unix_microseconds() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The library that the job has chosen for host memory. The records do not say which library moved
// an operation's data.
std::string mover_name(engine::Engine& engine) {
  const Result<std::string> chosen = engine.option("cpu_operations");
  if (!chosen.ok() || chosen.value() == "native") return "HVD";
  std::string name = chosen.value();
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

std::string file_of_rank(const std::string& path, int rank) {
  if (rank == 0) return path;
  const std::string mark = ".rank" + std::to_string(rank);
  const size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot <= name) return path + mark;
  return path.substr(0, dot) + mark + path.substr(dot);
}

Timeline::Timeline(std::shared_ptr<engine::Engine> engine, std::shared_ptr<const Logger> log,
                   ClockOffset clock)
    : engine_(std::move(engine)), log_(std::move(log)), clock_(clock) {}

Timeline::~Timeline() { end(); }

Status Timeline::start(const std::string& path, bool mark_cycles) {
  engine::FlightRecorder* const recorder = engine_->recorder();
  if (recorder == nullptr)
    return Status(Code::kInvalidState,
                  "timeline start: the option flight_recorder is 0 on this rank, and a timeline is "
                  "made of what the recorder keeps");
  if (path.empty()) return Status(Code::kInvalidArgument, "timeline start: the path is empty");
  const Topology& topology = engine_->topology();
  const MutexLock lock(mutex_);
  const std::string file = file_of_rank(path, topology.rank());
  if (writer_ != nullptr && writer_->path() == file) {
    log_->write(LogLevel::kInfo, "timeline", file + " is being written already");
    return {};
  }
  TraceHead head;
  head.rank = topology.rank();
  head.size = topology.size();
  head.host = topology.peer(head.rank).host;
  head.pid = ::getpid();
  head.start = now().time_since_epoch().count();
  head.start_unix = unix_microseconds();
  head.clock = clock_;
  head.mark_cycles = mark_cycles;
  head.mover = mover_name(*engine_);
  auto writer = std::make_unique<Writer>(*engine_, *recorder, *log_, file, std::move(head));
  HVD_TRY(writer->start());
  (void)end_writer();
  writer_ = std::move(writer);
  return {};
}

Status Timeline::stop() {
  const MutexLock lock(mutex_);
  if (writer_ == nullptr) log_->write(LogLevel::kInfo, "timeline", "no timeline is being written");
  return end_writer();
}

void Timeline::end() {
  const MutexLock lock(mutex_);
  if (const Status status = end_writer(); !status.ok())
    log_->write(LogLevel::kInfo, "timeline", status.message());
}

Status Timeline::end_writer() {
  if (writer_ == nullptr) return {};
  Status status = writer_->finish();
  writer_.reset();
  return status;
}

}  // namespace hvd::observe
