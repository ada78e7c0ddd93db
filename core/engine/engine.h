// SPDX-License-Identifier: Apache-2.0
// The engine of one context: the engine takes operations from callers, drives negotiation and data, and ends operations. The
// engine is driven by the thread that holds the progress role: a thread that waits for a result, or else the engine's own
// thread, which sleeps in the kernel without a timer while nothing is in flight.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "base/fault_record.h"
#include "base/fork_guard.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/options.h"
#include "device/devices.h"
#include "engine/backoff.h"
#include "engine/completions.h"
#include "engine/home_core.h"
#include "engine/in_flight.h"
#include "engine/operation.h"
#include "engine/process_set.h"
#include "engine/set_engine.h"
#include "transport/fabric.h"

namespace hvd::engine {

struct EngineParts {
  Options options;
  std::shared_ptr<Logger> log;
  std::shared_ptr<FaultRecord> faults;
  std::unique_ptr<transport::Fabric> fabric;
  negotiation::EagerReduce reduce;
  std::unique_ptr<device::Devices> devices;
  std::unique_ptr<backend::DeviceCommFactory> device_comms;
};

class Engine final : public std::enable_shared_from_this<Engine>, private SetHost, private transport::Sink {
 public:
  explicit Engine(EngineParts parts);
  ~Engine();

  // Starts the thread and opens the set of all ranks; collective. The factory outlives the engine.
  Status start(std::unique_ptr<backend::CommFactory> factory, Time deadline);
  // Leaves the job; see hvd_shutdown.
  Status shutdown(Time deadline);
  // Ends the threads; after shutdown.
  void stop();

  const Topology& topology() const { return topology_; }
  Status status() const;
  bool forked() const { return fork_guard_.forked(); }
  bool inside_callback() const { return completions_.on_callback_thread(); }
  Completions& completions() { return completions_; }
  device::Devices& devices() { return *devices_; }

  // An empty operation, if possible a used one with its memory.
  std::unique_ptr<Operation> fresh_operation();
  void recycle(std::unique_ptr<Operation> operation);
  // Takes over `operation`, which has one reference; gives the operation back with another reference for the caller on success.
  Result<Operation*> submit(std::unique_ptr<Operation> operation);
  // Between the two calls, operations are announced together: by end_burst(), or sooner if somebody drives. Bursts nest.
  void begin_burst() { bursts_.fetch_add(1); }
  Status end_burst();
  // Ok once the operation is done, whatever its result; kPending at the deadline.
  Status wait(Operation& operation, Time deadline);
  // Lets the engine make one round of progress if nobody drives it.
  void nudge();
  // Makes sure that somebody drives while operations are in flight, also within a burst: for callers that will not wait.
  void ensure_driver();

  const std::shared_ptr<ProcessSet>& world() const { return world_; }
  Result<std::shared_ptr<ProcessSet>> create_set(std::vector<int> ranks);
  Status destroy_set(const std::shared_ptr<ProcessSet>& set);
  std::shared_ptr<ProcessSet> find_set(int id);
  std::vector<int> set_ids();

  Result<std::string> option(const std::string& name);
  Status set_option(const std::string& name, const std::string& value);
  bool idle() const { return in_flight_.load(std::memory_order_relaxed) == 0; }
  double default_timeout_seconds() const { return default_timeout_.load(std::memory_order_relaxed); }
  void snapshot(std::vector<std::pair<const MetricRow*, double>>* out);

 private:
  // The progress role: the thread that holds the role drives.
  Mutex role_;
  // The mutex for what callers share with the driver. A thread that holds both takes this mutex after the role.
  mutable Mutex submit_mutex_;

  // Holds the progress role for a caller that is no driver; drivers step aside for it.
  class HVD_SCOPED_CAPABILITY Guest {
   public:
    explicit Guest(Engine& engine) HVD_ACQUIRE(engine.role_);
    ~Guest() HVD_RELEASE();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

   private:
    Engine& engine_;
    MutexLock role_;
  };

  // Counts its thread among those that wait for a result.
  class Waiter {
   public:
    explicit Waiter(Engine& engine) : engine_(engine) { come_back(); }
    ~Waiter() {
      if (counted_) step_aside();
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    void step_aside() {
      engine_.active_waiters_.fetch_sub(1);
      counted_ = false;
    }
    void come_back() {
      engine_.active_waiters_.fetch_add(1);
      counted_ = true;
    }

   private:
    Engine& engine_;
    bool counted_ = false;
  };

  // SetHost
  void send(int rank, const Bytes& message, bool urgent, std::span<const std::byte> payload = {}) override HVD_REQUIRES(role_);
  void complete(Operation* operation, Status status) override HVD_REQUIRES(role_);
  void on_set_operation(Operation* operation) override HVD_REQUIRES(role_);
  void break_context(const Status& why) override HVD_REQUIRES(role_) { begin_break(why, negotiation::MessageType::kAbort, -1); }
  void end_stalled(const Status& why) override HVD_REQUIRES(role_) { begin_break(why, negotiation::MessageType::kStalled, -1); }
  void on_set_closed(const ProcessSet& set, const Status& why) override HVD_REQUIRES(role_);
  void warn(const std::string& text) override;
  std::string describe(int rank) const override { return topology_.describe(rank); }
  std::string whereabouts(const SetEngine& asked, std::string_view key) override HVD_REQUIRES(role_);
  void answer_by(Time at) override HVD_REQUIRES(role_);
  DevicePlane::Around device_around(const ProcessSet& set) override HVD_REQUIRES(role_);
  Time time() const override HVD_REQUIRES(role_) { return time_; }
  Options& options() override HVD_REQUIRES(role_) { return options_; }
  Metrics& metrics() override { return metrics_; }
  // transport::Sink
  void on_message(int from, std::span<const std::byte> bytes) override HVD_REQUIRES(role_);
  void on_peer_lost(int rank, const std::string& cause) override HVD_REQUIRES(role_);

  // engine_submit.cc
  Status admit(Operation& operation) HVD_REQUIRES(submit_mutex_);
  Status enter(Operation& operation) HVD_REQUIRES(submit_mutex_);
  bool take_place(ProcessSet& set, Operation& operation) HVD_REQUIRES(submit_mutex_);
  void end_join(ProcessSet& set, bool joined) HVD_REQUIRES(submit_mutex_);
  void give_name_back(Operation& operation) noexcept HVD_REQUIRES(submit_mutex_);
  void unlist(Operation& operation) noexcept HVD_REQUIRES(submit_mutex_);
  void announce_end(Operation* operation, Status status) noexcept;
  void release_deferred(ProcessSet& set) HVD_REQUIRES(submit_mutex_);
  bool accept() HVD_REQUIRES(role_);
  bool kick() HVD_EXCLUDES(role_);
  bool look_needed() const HVD_REQUIRES(role_);
  void announce();
  // engine_wait.cc
  bool progress() noexcept HVD_REQUIRES(role_);
  bool look_round() HVD_REQUIRES(role_);
  void tick() HVD_REQUIRES(role_);
  void tick_by(Time at) HVD_REQUIRES(role_);
  void poke_laggards(Duration waited, Time* last_poke) HVD_REQUIRES(role_);
  bool drive_for(Operation& operation, Time deadline, Waiter& waiter) HVD_RELEASE(role_);
  void begin_driving() HVD_REQUIRES(role_);
  bool look_again_soon(Duration waited) HVD_REQUIRES(role_);
  bool announce_sleep() HVD_REQUIRES(role_);
  bool prepare_to_leave() HVD_REQUIRES(role_);
  void ensure_standby_ends();
  void run_thread();
  bool take_role() HVD_TRY_ACQUIRE(true, role_);
  void stand_by();
  bool role_taken();
  bool drive_thread() HVD_RELEASE(role_);
  int sleep_milliseconds() const;
  // engine_sets.cc
  Result<Operation*> submit_set_operation(OpKind kind, std::vector<int32_t> numbers, const char* name,
                                          std::shared_ptr<ProcessSet> confirms = nullptr);
  Status finish_set_operation(Operation* operation);
  Status open_here(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm>* comm);
  Status confirm_set(const std::shared_ptr<ProcessSet>& set, const Status& opened, std::unique_ptr<backend::DeviceComm>* split);
  Result<std::shared_ptr<ProcessSet>> open_agreed(const std::vector<int32_t>& given, std::vector<int> ranks);
  // Where there is no memory for attaching the set, the context ends, and the status says so: the others count on this member.
  Status attach(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm> comm,
                std::unique_ptr<backend::DeviceComm> split = nullptr);
  void attach_here(const std::shared_ptr<ProcessSet>& set, std::unique_ptr<backend::Comm> comm,
                   std::unique_ptr<backend::DeviceComm> split) HVD_REQUIRES(role_);
  // engine_collapse.cc: the end of a context whose driver has no memory for its work.
  // Clang does not know that `work` requires the role of this engine, and not of another one.
  template <class Work>
  bool attempt(Work&& work) noexcept HVD_REQUIRES(role_) HVD_NO_THREAD_SAFETY_ANALYSIS {
    try {
      return work();
    } catch (...) {
      collapse();
      return true;
    }
  }
  void collapse() noexcept HVD_REQUIRES(role_);
  Status take_collapse_reason() noexcept HVD_REQUIRES(role_);
  void tell_of_collapse() noexcept HVD_REQUIRES(role_);
  Status collapse_as_guest() noexcept;
  // engine.cc
  void say_goodbye(Time deadline) HVD_REQUIRES(role_);
  void begin_break(const Status& why, negotiation::MessageType as, int by) HVD_REQUIRES(role_);
  Status breaking_here() const HVD_REQUIRES(role_);
  void apply_break() HVD_REQUIRES(role_);
  void fail_sets(const Status& why, bool in_order) HVD_REQUIRES(role_);
  void tell_all(const Status& why, negotiation::MessageType as = negotiation::MessageType::kAbort) HVD_REQUIRES(role_);
  void tell_of_start(const Status& why);
  void apply_ended_sets() HVD_REQUIRES(role_);
  void fail_deferred(const Status& why) HVD_REQUIRES(role_);

  Options options_ HVD_GUARDED_BY(role_);  // the driver's copy
  std::shared_ptr<Logger> log_;
  std::shared_ptr<FaultRecord> faults_;
  std::unique_ptr<transport::Fabric> fabric_;
  negotiation::EagerReduce reduce_;
  std::unique_ptr<device::Devices> devices_;  // the devices' wake-ups use the fabric
  std::unique_ptr<backend::DeviceCommFactory> device_comms_;
  std::unique_ptr<backend::CommFactory> factory_;
  Topology topology_;
  Metrics metrics_;
  ForkGuard fork_guard_;
  Cores cores_;  // the cores of the thread that starts the engine
  BackoffPolicy backoff_;
  Crowd crowd_;
  HomeCore home_;
  Duration start_limit_{0};  // for opening a process set
  Completions completions_{cores_};

  // Ticks come this often while operations are in flight, for deadlines and stall reports.
  static constexpr Duration kTickEvery = std::chrono::milliseconds(100);

  // Members that only the driver uses.
  std::map<uint32_t, std::unique_ptr<SetEngine>> sets_ HVD_GUARDED_BY(role_);        // the open sets of this rank by serial
  std::vector<std::unique_ptr<backend::DeviceComm>> leaving_ HVD_GUARDED_BY(role_);  // comms of sets that have gone
  // Messages to sets that are still being opened here.
  std::map<uint32_t, std::vector<std::pair<int, Bytes>>> early_ HVD_GUARDED_BY(role_);
  std::set<uint32_t> opening_ HVD_GUARDED_BY(role_){0};  // sets agreed on, but not attached here yet
  uint32_t next_serial_ HVD_GUARDED_BY(role_) = 1;
  Status breaking_ HVD_GUARDED_BY(role_);  // the failure to be applied at the end of the round
  // Whether breaking_ counts: when breaking_ came the context still worked, or this rank was leaving the job and breaking_ was
  // the loss of a peer.
  bool breaking_counts_ HVD_GUARDED_BY(role_) = false;
  negotiation::MessageType breaking_as_ HVD_GUARDED_BY(role_) = negotiation::MessageType::kAbort;
  int breaking_by_ HVD_GUARDED_BY(role_) = -1;              // the rank that has told of breaking_, -1 if it was found out here
  std::vector<uint32_t> ended_sets_ HVD_GUARDED_BY(role_);  // sets destroyed in this round
  Time time_ HVD_GUARDED_BY(role_){};
  Time next_tick_ HVD_GUARDED_BY(role_) = kNever;
  unsigned rounds_ HVD_GUARDED_BY(role_) = 0;
  bool collapsed_ HVD_GUARDED_BY(role_) = false;
  Status no_memory_ HVD_GUARDED_BY(role_);                  // a status made at the start, for when there is no memory
  Bytes no_memory_news_ HVD_GUARDED_BY(role_);              // a message made at the start that tells the others of no_memory_
  std::vector<Operation*> accepted_ HVD_GUARDED_BY(role_);  // swapped with submitted_

  // Shared with callers.
  InFlight all_in_flight_ HVD_GUARDED_BY(submit_mutex_);
  std::vector<Operation*> submitted_ HVD_GUARDED_BY(submit_mutex_);
  std::atomic<bool> has_submitted_{false};
  std::atomic<int64_t> in_flight_{0};  // changed under submit_mutex_
  std::unordered_map<ProcessSet*, std::deque<Operation*>> deferred_ HVD_GUARDED_BY(submit_mutex_);
  Options shadow_options_ HVD_GUARDED_BY(submit_mutex_);  // the callers' copy of options_
  bool options_changed_ HVD_GUARDED_BY(submit_mutex_) = false;
  std::atomic<double> default_timeout_{0};                  // read by every submission without the mutex
  Status status_ HVD_GUARDED_BY(submit_mutex_);             // why the context no longer works
  bool leaving_job_ HVD_GUARDED_BY(submit_mutex_) = false;  // shutdown() of this rank came while the context worked
  // Why the world no longer works although the context does: another rank has left. Sets without that rank go on.
  Status departure_ HVD_GUARDED_BY(submit_mutex_);
  std::map<int32_t, std::shared_ptr<ProcessSet>> sets_by_id_ HVD_GUARDED_BY(submit_mutex_);
  std::deque<int32_t> free_ids_ HVD_GUARDED_BY(submit_mutex_);
  int32_t next_id_ HVD_GUARDED_BY(submit_mutex_) = 1;
  std::atomic<int> bursts_{0};                // bursts begun and not ended
  std::atomic<bool> wake_owed_{false};        // the next announce() wakes the thread
  std::atomic<Time::rep> first_undriven_{0};  // when the first of the operations in flight was submitted
  // Callers waited at once for the last burst, so they are expected to wait for the next one, too.
  std::atomic<bool> expect_wait_{false};

  Mutex pool_mutex_;
  std::vector<std::unique_ptr<Operation>> pool_ HVD_GUARDED_BY(pool_mutex_);

  // Hand-over between waiters and the thread.
  std::atomic<int> active_waiters_{0};
  // A driver was wanted while somebody waited; a waiter that stops waiting sees to it.
  std::atomic<bool> left_to_waiter_{false};
  std::atomic<bool> interrupted_{false};
  Mutex handover_mutex_;
  std::condition_variable handover_;
  std::atomic<bool> thread_standing_by_{false};
  std::atomic<int> guests_{0};  // callers that want the role for a moment
  std::atomic<bool> stopping_{false};
  std::atomic<bool> owes_answers_{false};  // a tick is due although nothing may be in flight
  std::atomic<Time::rep> tick_at_{kNever.time_since_epoch().count()};
  std::thread thread_;

  Mutex set_mutex_;  // serializes creating and destroying sets on this rank
  Mutex shutdown_mutex_;
  bool shut_down_ HVD_GUARDED_BY(shutdown_mutex_) = false;
  std::shared_ptr<ProcessSet> world_;
};

}  // namespace hvd::engine
