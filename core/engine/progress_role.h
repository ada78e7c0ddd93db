// SPDX-License-Identifier: Apache-2.0
// Who drives the engine of a context. The progress role is a mutex. The role's holder, the driver,
// is a thread that waits for a result, or else the engine's own thread, which sleeps in the kernel
// without a timer while nothing is in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>

#include "base/fork_guard.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "engine/alarm.h"
#include "engine/backoff.h"
#include "engine/completions.h"
#include "engine/operation.h"
#include "engine/progress_engine.h"
#include "engine/submit_queue.h"
#include "engine/thread_placement.h"
#include "transport/fabric.h"

namespace hvd::engine {

class ProgressRole {
 public:
  // The other parts of the context, which outlive the role.
  struct Around {
    ProgressEngine& engine;
    SubmitQueue& queue;
    transport::Fabric& fabric;
    const Completions& completions;
    ThreadPlacement& placement;
    const Alarm& alarm;
    Metrics& metrics;
    const ForkGuard& fork_guard;
  };
  ProgressRole(const BackoffPolicy& policy, const Around& around);
  ~ProgressRole();
  ProgressRole(const ProgressRole&) = delete;
  ProgressRole& operator=(const ProgressRole&) = delete;

  // Held by the driver.
  Mutex& mutex() HVD_RETURN_CAPABILITY(mutex_) { return mutex_; }

  // Holds the role for a caller that is no driver; drivers step aside for it.
  class HVD_SCOPED_CAPABILITY Guest {
   public:
    explicit Guest(ProgressRole& role) HVD_ACQUIRE(role.mutex_);
    ~Guest() HVD_RELEASE();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

   private:
    ProgressRole& role_;
    MutexLock lock_;
  };

  // Starts the engine's thread.
  Status start();
  // From now on nobody drives, because the fabric has been left. join() ends the engine's thread
  // then.
  void stop() HVD_REQUIRES(mutex_) { stopping_.store(true); }
  void join();

  // Sees to it that an operation that has been added to the queue gets announced and driven.
  void on_submitted(const SubmitQueue::Added& added);
  // Between the two calls, operations are announced together: by end_burst(), or sooner if somebody
  // drives. Bursts nest.
  void begin_burst() { bursts_.fetch_add(1); }
  Status end_burst();
  // Tells the others of all that has been submitted, and wakes the thread if the thread has to
  // look.
  void announce();
  // Drives, or sleeps while others drive, until the operation is done or the deadline.
  Status wait(Operation& operation, Time deadline);
  // Lets the engine make one round of progress if nobody drives it.
  void nudge();
  // Makes sure that somebody drives while operations are in flight, also within a burst: for
  // callers that will not wait.
  void ensure_driver() noexcept;
  // Brings the metrics of the sets up to date if nobody drives; a driver does so by itself.
  void collect_metrics();
  Backoff backoff() { return Backoff(policy_, contention_); }

 private:
  // Counts its thread among those that wait for a result.
  class Waiter {
   public:
    explicit Waiter(ProgressRole& role) : role_(role) { come_back(); }
    ~Waiter() {
      if (counted_) step_aside();
    }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    void step_aside() {
      role_.active_waiters_.fetch_sub(1);
      counted_ = false;
    }
    void come_back() {
      role_.active_waiters_.fetch_add(1);
      counted_ = true;
    }

   private:
    ProgressRole& role_;
    bool counted_ = false;
  };

  bool kick() HVD_EXCLUDES(mutex_);
  bool thread_looks_soon() const {
    return expect_wait_ && thread_standing_by_.load() && !completions_.queueing();
  }
  bool progress() noexcept HVD_REQUIRES(mutex_);
  bool drive_for(Operation& operation, Time deadline, Waiter& waiter) HVD_RELEASE(mutex_);
  void begin_driving() HVD_REQUIRES(mutex_);
  bool look_again_soon(Duration waited) HVD_REQUIRES(mutex_);
  bool announce_sleep() HVD_REQUIRES(mutex_);
  bool prepare_to_leave() HVD_REQUIRES(mutex_);
  void ensure_standby_ends();
  // progress_thread.cc
  void run_thread();
  bool take_for_thread() HVD_TRY_ACQUIRE(true, mutex_);
  void stand_by();
  bool taken();
  bool drive_thread() HVD_RELEASE(mutex_);

  Mutex mutex_;
  ProgressEngine& engine_ HVD_GUARDED_BY(mutex_);
  SubmitQueue& queue_;
  transport::Fabric& fabric_;
  const Completions& completions_;
  ThreadPlacement& placement_;
  const Alarm& alarm_;
  Metrics& metrics_;
  const ForkGuard& fork_guard_;
  const BackoffPolicy policy_;
  Contention contention_;

  // Bursts, and whether callers wait for what they submit.
  std::atomic<int> bursts_{0};          // bursts begun and not ended
  std::atomic<bool> wake_owed_{false};  // the next announce() wakes the thread
  // Callers waited at once for the last burst, so they are expected to wait for the next one, too.
  std::atomic<bool> expect_wait_{false};

  // Hand-over between waiters, guests and the thread.
  std::atomic<int> active_waiters_{0};
  std::atomic<int> guests_{0};  // callers that want the role for a moment
  // A driver was wanted while somebody waited; a waiter that stops waiting sees to it.
  std::atomic<bool> left_to_waiter_{false};
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> thread_standing_by_{false};
  std::atomic<bool> stopping_{false};
  Mutex handover_mutex_;  // guards nothing: for handover_
  std::condition_variable handover_;
  std::thread thread_;
};

}  // namespace hvd::engine
