// SPDX-License-Identifier: Apache-2.0
// The way of operations from the callers' threads to the driver, and what both share: the
// operations in flight, their names, the options as callers see them, and why the context accepts
// no more operations.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fault_record.h"
#include "base/mutex.h"
#include "base/options.h"
#include "engine/flight_recorder.h"
#include "engine/in_flight.h"
#include "engine/operation.h"
#include "engine/process_set.h"
#include "transport/fabric.h"

namespace hvd::engine {

class SubmitQueue {
 public:
  // `recorder` may be nullptr.
  SubmitQueue(const Options& options, transport::Fabric& fabric, FaultRecord& faults,
              FlightRecorder* recorder);

  // For callers.
  struct Added {
    Operation* operation = nullptr;  // with another reference, for the caller
    bool first = false;              // nothing else was in flight
    // otherwise: since the first of the operations in flight was submitted
    Duration undriven{0};
  };
  // Takes over `operation`, which has one reference.
  Result<Added> add(std::unique_ptr<Operation> operation);
  bool has_news() const { return has_news_.load(); }
  int64_t in_flight() const { return in_flight_.load(); }
  bool idle() const { return in_flight_.load(std::memory_order_relaxed) == 0; }
  // When the first of the operations in flight was submitted.
  Time first_submitted() const {
    return Time{Duration(first_submitted_.load(std::memory_order_relaxed))};
  }
  Result<std::string> option(const std::string& name) const;
  Status set_option(const std::string& name, const std::string& value);
  double default_timeout_seconds() const {
    return default_timeout_.load(std::memory_order_relaxed);
  }
  // The operations in flight, oldest first.
  void append_records(std::vector<FlightRecorder::Entry>* entries) const;
  // Why the context, or else the world, no longer works.
  Status status() const;

  // For the driver.
  // Swaps `batch`, which is empty, with what has been submitted. True if callers have changed
  // options; `options` follow.
  bool take(std::vector<Operation*>* batch, Options* options);
  // Takes out the operations that wait for a place.
  std::vector<Operation*> take_deferred();
  // The operation is in flight no more, and its name is free. May let operations that wait for a
  // place go on.
  void remove(Operation& operation, bool went_well);

  // The end. The first cause stands, unless said otherwise.
  // Closes because this rank leaves the job, and is true if the context still worked.
  bool leave(Status why);
  // Whether a failure that is found now ends operations: see Failure::counts().
  bool ends_operations(const Status& why) const;
  // From now on submissions are refused with `why`, whatever the cause was before.
  void close(Status why);
  // Another rank has left: submissions on the world are refused. Sets without that rank go on.
  void close_world(const Status& why);
  // Closes where there is no memory for anything else: nothing is submitted or waits for a place
  // any more.
  void abandon(Status why) noexcept;
  // Any operation in flight, removed and with the words for its end; nullptr if there is none.
  // Needs no memory.
  Operation* remove_any(Status* worded) noexcept;

 private:
  Status admit(Operation& operation) const HVD_REQUIRES(mutex_);
  Status enter(Operation& operation) HVD_REQUIRES(mutex_);
  bool take_place(ProcessSet& set, Operation& operation) HVD_REQUIRES(mutex_);
  void release_deferred(ProcessSet& set) HVD_REQUIRES(mutex_);
  void give_name_back(Operation& operation) noexcept HVD_REQUIRES(mutex_);
  void unlist(Operation& operation) noexcept HVD_REQUIRES(mutex_);

  const int rank_;
  transport::Fabric& fabric_;
  FaultRecord& faults_;
  FlightRecorder* const recorder_;

  // A thread that holds the progress role, too, takes this mutex after the role.
  mutable Mutex mutex_;
  InFlight all_ HVD_GUARDED_BY(mutex_);
  std::vector<Operation*> submitted_ HVD_GUARDED_BY(mutex_);
  std::unordered_map<ProcessSet*, std::deque<Operation*>> deferred_ HVD_GUARDED_BY(mutex_);
  Options options_ HVD_GUARDED_BY(mutex_);
  bool options_changed_ HVD_GUARDED_BY(mutex_) = false;
  Status closed_ HVD_GUARDED_BY(mutex_);  // why the context no longer works
  // why the world no longer works although the context does
  Status world_closed_ HVD_GUARDED_BY(mutex_);
  bool leaving_ HVD_GUARDED_BY(mutex_) = false;  // since leave(), if the context worked until then

  // Changed under the mutex, read without it.
  std::atomic<bool> has_news_{false};  // something has been submitted, or an option changed
  std::atomic<int64_t> in_flight_{0};
  std::atomic<Time::rep> first_submitted_{0};
  std::atomic<double> default_timeout_;
};

}  // namespace hvd::engine
