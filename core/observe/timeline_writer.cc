// SPDX-License-Identifier: Apache-2.0
#include "observe/timeline_writer.h"

#include <signal.h>

#include <utility>

#include "base/threads.h"

namespace hvd::observe {

using engine::FlightRecorder;
using engine::RecordClock;

namespace {

// How long an operation that has ended may be missing in the file.
constexpr Duration kLookEvery = std::chrono::milliseconds(50);
// The recorder overwrites its oldest records; the thread is woken when that many are new.
constexpr uint64_t kManyRecords = engine::kFlightOperations / 2;
// Bytes of events that wait for a disk that is full. Operations that end while there are more are
// counted only.
constexpr size_t kMostUnwritten = size_t{1} << 22;

// A file that cannot be written spoils the call, and not the context.
Status of_call(Code code, const Status& status, const std::string& more = "") {
  if (status.ok()) return {};
  return Status(code, "timeline: " + status.message() + more).with_errno(status.sys_errno());
}

}  // namespace

Timeline::Writer::Writer(engine::Engine& engine, FlightRecorder& recorder, const Logger& log,
                         std::string path, TraceHead head)
    : engine_(engine),
      recorder_(recorder),
      log_(log),
      path_(std::move(path)),
      start_(head.start),
      events_(std::move(head)),
      read_(recorder.newest()) {}

Status Timeline::Writer::start() {
  HVD_TRY(of_call(Code::kInvalidArgument, file_.open(path_)));
  events_.begin(&unwritten_);
  HVD_TRY(of_call(Code::kInvalidArgument, file_.append(&unwritten_)));
  // Signals are for the threads of the user. The one for a file that is too long would end the
  // process.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const Status started = start_thread([this] { run(); }, "the thread of the timeline", &thread_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return of_call(Code::kInvalidState, started);
}

Status Timeline::Writer::finish() {
  join();
  return of_call(
      Code::kInvalidState, trouble_,
      "; " + std::to_string(unwritten_.count()) + " events of the timeline are missing at its end");
}

void Timeline::Writer::join() {
  stopping_.store(true);
  recorder_.ring();
  if (thread_.joinable()) thread_.join();
}

void Timeline::Writer::run() noexcept {
  try {
    while (!stopping_.load()) {
      recorder_.wait(read_ + kManyRecords, now() + kLookEvery);
      drain();
    }
    drain();
    if (lost_ > 0) {
      events_.add_lost(lost_, now().time_since_epoch().count(), &unwritten_);
      write();
    }
  } catch (const std::exception& caught) {
    trouble_ = Status(Code::kInternal, "timeline " + path_ + ": " + caught.what());
    log_.write(LogLevel::kWarn, "timeline", trouble_.message() + "; the timeline ends here");
  }
}

void Timeline::Writer::drain() {
  if (recorder_.newest() == read_ && unwritten_.count() == 0) return;
  const std::vector<FlightRecorder::Entry> entries = recorder_.since(read_);
  const RecordClock clock(recorder_.rate());
  for (const FlightRecorder::Entry& entry : entries) {
    lost_ += entry.number - read_ - 1;
    read_ = entry.number;
    if (unwritten_.bytes() > kMostUnwritten) {
      ++lost_;
      continue;
    }
    if (lost_ > 0) {
      events_.add_lost(lost_, clock.time(entry.operation.ended), &unwritten_);
      lost_ = 0;
    }
    take(entry, clock);
  }
  write();
}

void Timeline::Writer::take(const FlightRecorder::Entry& entry, const RecordClock& clock) {
  if (entry.operation.submitted < start_) return;
  const std::shared_ptr<engine::ProcessSet> set = engine_.find_set(entry.set);
  negotiation::Arrivals::Use arrivals;
  if (const auto known = set ? set->arrivals.load() : nullptr)
    arrivals = known->find(entry.operation.use);
  const engine::RecordTimes times = engine::times_of(entry, clock);
  // A set that has ended may have left its id to another one.
  if (arrivals.since.time_since_epoch().count() > times.ended) arrivals = {};
  const uint32_t last = entry.operation.last;
  const int last_rank = set && last < set->ranks.size() ? set->ranks[last] : -1;
  events_.add(entry, times, arrivals.number != 0 ? &arrivals : nullptr, last_rank, &unwritten_);
}

void Timeline::Writer::write() {
  trouble_ = file_.append(&unwritten_);
  if (trouble_.ok() || warned_) return;
  warned_ = true;
  log_.write(LogLevel::kWarn, "timeline",
             trouble_.message() +
                 "; the job goes on, and what is missing is written once there is room again");
}

}  // namespace hvd::observe
