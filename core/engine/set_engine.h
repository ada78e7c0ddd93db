// SPDX-License-Identifier: Apache-2.0
// Everything that happens inside one process set on this rank: the member half of negotiation, the
// coordinator half on its lowest rank, and the queue of agreed groups on its data plane. Only the
// engine's driver uses a SetEngine.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/metrics.h"
#include "base/options.h"
#include "engine/device_plane.h"
#include "engine/execution.h"
#include "engine/flight_recorder.h"
#include "engine/group_meter.h"
#include "engine/observations.h"
#include "engine/operation.h"
#include "engine/process_set.h"
#include "negotiation/coordinator.h"
#include "negotiation/member.h"

namespace hvd::engine {

class SetEngine;

inline Duration from_seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

// The host is the engine around a set, as far as the set needs the engine.
class SetHost {
 public:
  virtual ~SetHost() = default;
  // as Fabric::send
  virtual void send(int rank, const Bytes& message, bool urgent,
                    std::span<const std::byte> payload) = 0;
  virtual void complete(Operation* operation, Status status) = 0;
  // Operations on process sets take effect in this call, in the agreed order.
  virtual void on_set_operation(Operation* operation) = 0;
  // Takes effect at the end of this round of the loop, so that no code up the call stack loses
  // operations that it still uses.
  virtual void break_context(const Status& why) = 0;
  // The same for an operation that has stalled for too long. The others' waiting operations say
  // themselves which ranks they wait for.
  virtual void end_stalled(const Status& why) = 0;
  virtual void on_set_closed(const ProcessSet& set, const Status& why) = 0;
  virtual void warn(const std::string& text) = 0;
  virtual std::string describe(int rank) const = 0;
  // The text about what this rank waits for on any set: see SetEngine::wait_of().
  virtual std::string whereabouts(const SetEngine& asked, std::string_view key) = 0;
  // Sees to a tick at that time, also if nothing is in flight on this rank: others wait for what
  // the tick answers.
  virtual void answer_by(Time at) = 0;
  virtual DevicePlane::Around device_around(const ProcessSet& set) = 0;
  virtual Time time() const = 0;  // coarse: the time of this round of the loop
  virtual Options& options() = 0;
  virtual Metrics& metrics() = 0;
  virtual FlightRecorder* recorder() = 0;  // nullptr if it is off
  virtual Observations& observations() = 0;
};

class SetEngine final : private negotiation::Member::Actions,
                        private negotiation::Coordinator::Out {
 public:
  // `split`: see DevicePlane.
  SetEngine(SetHost& host, std::shared_ptr<ProcessSet> set, std::unique_ptr<backend::Comm> comm,
            std::unique_ptr<backend::DeviceComm> split);

  const std::shared_ptr<ProcessSet>& set() const { return set_; }

  void submit(Operation* operation);
  void flush() { member_.flush(); }
  // `from` is a rank of the job and a member.
  void on_message(int from, negotiation::MessageType type, ByteReader in);
  // Plans, runs data operations; true if anything moved.
  bool progress(Time now);
  // Deadlines, stalls. Returns the time of the next one.
  Time tick(Time now);
  // The rank whose data a running operation has been waiting for, or -1.
  int straggler() const;
  // The coordinator's rank if some operation still waits for its decision, else -1.
  int undecided_with() const;
  // Whether data is under way whose arrival nothing announces.
  bool must_poll() const;
  // Ends the operations whose limit of time is over on another rank; to be called when all messages
  // have been passed on. Returns whether there were any.
  bool end_withdrawn() { return !dead_ && coordinator_ && coordinator_->end_withdrawn(); }
  // Whether this rank has agreed on operations for the set that are yet to be planned.
  bool must_plan() const { return !dead_ && coordinator_ && coordinator_->has_ready(); }
  // Until when this rank holds agreed operations back to plan more at once; kNever if this rank
  // does not.
  Time held_until() const;
  bool data_moving() const { return running_ != nullptr || !jobs_.empty(); }
  // The operation here that tells best what this rank waits for: the operation of that name, else
  // one that a caller waits for, else the oldest; nullptr if there is none.
  const Operation* wait_of(std::string_view key) const;
  // The flight recorder's words for an operation that wait_of() has found.
  WaitRecord record_of_wait(const Operation& operation) const;
  // Whether other members wait for this rank to tell them who is missing.
  bool owes_answer() const { return !dead_ && coordinator_ && coordinator_->inquiring(); }
  // Tells the coordinator that this rank leaves.
  void bye();
  // Ends every operation of this rank with `why`, worded per operation, and accepts none any more.
  // `in_order`: results that are on their way between devices are to arrive.
  void fail_all(const Status& why, bool in_order);
  // The same, at once, for the operations that know who is missing: each says how long it has
  // waited, and for whom.
  void fail_stalled();
  // Called instead of fail_all() where there is no memory for anything: forgets the set's
  // operations, which the collapse ends.
  void abandon() noexcept;
  // Begins to end what connects the members' devices, see DeviceComm::begin_end. leave() does so in
  // order, and returns the comms that go on without the set.
  void begin_end(bool in_order) noexcept { plane_.begin_end(in_order); }
  std::vector<std::unique_ptr<backend::DeviceComm>> leave() { return plane_.leave(); }
  void apply_options();
  void collect_metrics();

 private:
  // negotiation::Member::Actions
  void to_coordinator(const Bytes& message, bool urgent,
                      std::span<const std::byte> payload) override;
  void mark(void* token, uint32_t& mark) override;
  void run(const negotiation::PlanGroup& group, std::span<void* const> tokens) override;
  void finish(void* token, std::span<const std::byte> result,
              const negotiation::Agreement& agreement) override;
  void finish_with(void* token, std::span<const std::byte> payload, uint64_t use) override;
  void fail(void* token, const Status& why) override;
  void missing(void* token, std::span<const int64_t> ranks, std::string_view text) override;
  std::string whereabouts(std::string_view key) override { return host_.whereabouts(*this, key); }
  void close(const Status& why) override;
  // negotiation::Coordinator::Out
  void to_member(int member, const Bytes& message, bool urgent,
                 std::span<const std::byte> payload) override;

  bool may_issue() const;
  bool meeting() const { return running_->meets() && !plane_.met(); }
  backend::Progress poll_running();
  Time watch_device(Time now);
  bool run_data();
  std::unique_ptr<Execution> fresh_execution();
  void run_set_operation(Operation* operation);
  void end_running();
  void record_group(const Execution& done);
  Status named(const Status& why) const;
  int own_rank() const { return set_->ranks[static_cast<size_t>(set_->me)]; }
  void fail_unplanned(const Status& why);
  void unlist(Operation* operation);
  // set_engine_waiting.cc
  Time check_operation(Operation& operation, Time now);
  Time enforce_deadline(Operation& operation, Time now);
  Time check_stall(Operation& operation, Time now);
  Time check_running(Time now);
  void report(Operation& operation);
  void tell_of_stall(const Operation& operation, std::span<const int64_t> missing,
                     const std::string& text);
  std::string stall_text(const Operation& operation) const;
  void blame_coordinator(const Operation& operation, const std::string& after);
  int member_of(int rank) const;

  SetHost& host_;
  std::shared_ptr<ProcessSet> set_;
  std::unique_ptr<backend::Comm> comm_;
  DevicePlane plane_;
  negotiation::Signature exchanged_signature_;  // scratch of finish_with()
  Bytes result_;
  negotiation::Member member_;
  std::unique_ptr<negotiation::Coordinator> coordinator_;
  negotiation::CoordinatorCounters counted_;  // counts that have been added to the metrics so far
  uint64_t counted_hits_ = 0;
  uint64_t counted_misses_ = 0;
  std::list<Operation*> waiting_;       // submitted here, not planned yet
  std::list<Operation*> unused_nodes_;  // nodes of waiting_, kept for their memory
  std::vector<std::unique_ptr<Execution>> unused_executions_;
  std::deque<std::unique_ptr<Execution>> jobs_;  // planned, in the agreed order
  std::unique_ptr<Execution> running_;
  GroupMeter meter_;  // measures running_
  Time last_tick_{};
  // Whether this rank stood still between the last two ticks: messages that this rank has not heard
  // meanwhile may be waiting for it.
  bool stood_still_ = false;
  bool data_moved_ = false;    // whether data has moved since the last tick
  Time data_since_{};          // the running group has stood still since then
  Time data_report_ = kNever;  // when the standstill is reported next
  Status closed_;
  bool dead_ = false;  // after fail_all() or abandon(): late messages are ignored
};

// Whether `a` rather than `b`, both of this rank, says why this rank has not come to an operation
// of that key.
bool tells_more(const Operation& a, const Operation& b, std::string_view key);

}  // namespace hvd::engine
