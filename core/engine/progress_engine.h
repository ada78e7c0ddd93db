// SPDX-License-Identifier: Apache-2.0
// What the driver of a context does in a round: take what callers have submitted, deliver messages,
// run the data of all sets, look after deadlines, and let a failure take effect. Only the holder of
// the progress role uses a ProgressEngine, and its owner says so to clang (HVD_GUARDED_BY).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/fault_record.h"
#include "base/histograms.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/options.h"
#include "engine/alarm.h"
#include "engine/backoff.h"
#include "engine/completions.h"
#include "engine/failure.h"
#include "engine/flight_recorder.h"
#include "engine/observations.h"
#include "engine/open_sets.h"
#include "engine/set_directory.h"
#include "engine/submit_queue.h"
#include "engine/thread_placement.h"
#include "transport/fabric.h"

namespace hvd::engine {

class ProgressEngine final : private SetHost, private transport::Sink {
 public:
  // The other parts of the context, which outlive the ProgressEngine.
  struct Around {
    const Logger& log;
    FaultRecord& faults;
    transport::Fabric& fabric;
    backend::DeviceCommFactory* device_comms;  // or nullptr
    Metrics& metrics;
    SubmitQueue& queue;
    SetDirectory& directory;
    Completions& completions;
    ThreadPlacement& placement;
    Alarm& alarm;
    FlightRecorder* recorder;  // or nullptr
    Histograms& histograms;
  };
  ProgressEngine(const Options& options, const Around& around);

  // Makes one round, and is true if anything moved. Without memory for the work that the round
  // finds, the context ends; the driver goes on to find that out.
  bool progress() noexcept;
  // Takes what has been submitted and announces it to the other ranks. True if the announcement
  // left something to do, which no message from others would wake anybody for.
  bool announce() noexcept;
  // The thread that calls has not driven until now.
  void look_at_clock() { time_ = now(); }
  Time time() const override { return time_; }
  Time next_tick() const { return next_tick_; }
  // Wakes the ranks whose part this rank has waited for.
  void poke_stragglers(Duration waited, Time* last_poke);
  // Whether a data plane is under way that rings no bell.
  bool must_poll() const { return sets_.must_poll(); }
  void collect_metrics() const { sets_.collect_metrics(); }

  // Opens an agreed set, on a rank that is no member without a comm. Where there is no memory for
  // that the context ends, and the status says so: the others count on this member.
  Status attach(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm> comm,
                std::unique_ptr<backend::DeviceComm> split);
  // Forgets an agreed set that is not opened after all.
  void forget(uint32_t serial) { sets_.forget(serial); }

  // Tells the others of a failure to start that concerns this rank alone: the others may have
  // started and wait for this rank in an operation.
  void tell_of_start(const Status& why);
  // The operations that this rank has begun end, the others learn that this rank leaves, and the
  // operations that are left fail. `backoff` is for the rounds until then. Nothing but the
  // destructor may follow.
  void leave(Time deadline, Backoff backoff);
  // Ends the context inside a handler, because something that all ranks have agreed on cannot go on
  // here.
  void collapse() noexcept;

 private:
  // SetHost
  void send(int rank, const Bytes& message, bool urgent,
            std::span<const std::byte> payload = {}) override;
  void complete(Operation* operation, Status status) override;
  void on_set_operation(Operation* operation) override;
  void break_context(const Status& why) override {
    begin_break(why, negotiation::MessageType::kAbort, -1);
  }
  void end_stalled(const Status& why) override {
    begin_break(why, negotiation::MessageType::kStalled, -1);
  }
  void on_set_closed(const ProcessSet& set, const Status& why) override;
  void warn(const std::string& text) override { log_.write(LogLevel::kWarn, "stall", text); }
  std::string describe(int rank) const override { return topology_.describe(rank); }
  std::string whereabouts(const SetEngine& asked, std::string_view key) override {
    return sets_.whereabouts(asked, key);
  }
  void answer_by(Time at) override;
  DevicePlane::Around device_around(const ProcessSet& set) override;
  Options& options() override { return options_; }
  Metrics& metrics() override { return metrics_; }
  FlightRecorder* recorder() override { return recorder_; }
  Observations& observations() override { return observations_; }
  // transport::Sink
  void on_message(int from, std::span<const std::byte> bytes) override;
  void on_peer_lost(int rank, const std::string& cause) override;

  bool round();
  bool accept();
  bool look_needed() const;
  void tick();
  void record_wait() noexcept;
  void tick_by(Time at);
  void attach_here(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm> comm,
                   std::unique_ptr<backend::DeviceComm> split);
  void record(const Operation& operation, const Status& status) noexcept;
  void announce_end(Operation* operation, Status status) noexcept;
  // progress_engine_end.cc
  template <class Work>
  bool attempt(Work&& work) noexcept {
    try {
      return work();
    } catch (...) {
      collapse();
      return true;
    }
  }
  void begin_break(const Status& why, negotiation::MessageType as, int by);
  void apply_break();
  void fail_deferred(const Status& why);
  void tell_all(const Status& why, negotiation::MessageType as = negotiation::MessageType::kAbort);
  void tell_of_collapse() noexcept;
  void say_goodbye(Time deadline, Backoff& backoff);

  const Logger& log_;
  FaultRecord& faults_;
  transport::Fabric& fabric_;
  backend::DeviceCommFactory* const device_comms_;
  Metrics& metrics_;
  SubmitQueue& queue_;
  SetDirectory& directory_;
  Completions& completions_;
  ThreadPlacement& placement_;
  Alarm& alarm_;
  FlightRecorder* const recorder_;
  Observations observations_;
  const Topology& topology_;

  Options options_;  // the driver's copy
  OpenSets sets_;
  Failure failure_;
  Time time_;
  Time next_tick_ = kNever;
  unsigned rounds_ = 0;
  std::vector<Operation*> accepted_;  // swapped with what has been submitted
};

}  // namespace hvd::engine
