// SPDX-License-Identifier: Apache-2.0
// How the driver is chosen, and how waiting and sleeping go.
//
// The role's holder has announced to the other ranks that this rank looks at memory by itself
// (park_end); before the holder gives the role up it announces the opposite (park_begin), after
// which senders ring the bell and the engine's thread, asleep on wait_fd(), takes over. So at any
// time either somebody holds the role, or the bell works; except while the thread makes room for a
// caller: the thread drives once more before it sleeps, because the caller may have gone without
// driving.
//
// The bell of a rank with nothing in flight is not rung, so with the rank's first operation
// somebody must look at what has come: a caller that waits at once, which is expected of callers
// that did so before, or the thread, which is woken to look or stands by.
#include "engine/progress_role.h"

#include <sched.h>

namespace hvd::engine {

namespace {

constexpr Duration kNapAfter = std::chrono::milliseconds(1);
constexpr Duration kNap = std::chrono::microseconds(50);
// A wait that begins so soon after the first submission is the blocking pattern, be it of one
// operation or of a burst.
constexpr Duration kPromptWait = std::chrono::microseconds(300);
// A burst of submissions that nobody has driven for so long gets the engine's thread.
constexpr Duration kUndrivenLimit = std::chrono::microseconds(300);

}  // namespace

ProgressRole::ProgressRole(const BackoffPolicy& policy, const Around& around)
    : engine_(around.engine),
      queue_(around.queue),
      fabric_(around.fabric),
      completions_(around.completions),
      placement_(around.placement),
      alarm_(around.alarm),
      metrics_(around.metrics),
      fork_guard_(around.fork_guard),
      policy_(policy) {}

ProgressRole::~ProgressRole() {
  if (fork_guard_.forked()) {
    if (thread_.joinable()) thread_.detach();  // the thread lives in the parent only
    return;
  }
  stopping_.store(true);
  if (!thread_.joinable()) return;
  fabric_.interrupt();
  ensure_standby_ends();
  thread_.join();
}

void ProgressRole::join() {
  fabric_.interrupt();
  {
    MutexLock lock(handover_mutex_);
    handover_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

ProgressRole::Guest::Guest(ProgressRole& role) : role_(role), lock_(role.mutex_, std::defer_lock) {
  role_.guests_.fetch_add(1);
  lock_.lock();
  role_.begin_driving();
}

ProgressRole::Guest::~Guest() {
  role_.guests_.fetch_sub(1);
  if (role_.stopping_.load()) return;
  role_.prepare_to_leave();
  lock_.unlock();
  role_.kick();
  // Needed whatever kick() says: the drivers that stepped aside for the guest may sleep by now.
  role_.ensure_driver();
}

void ProgressRole::on_submitted(const SubmitQueue::Added& added) {
  // Until the first operation others' messages rang no bell. If nobody waits after all, the thread
  // must look: a thread that stands by looks soon. With a later operation, a wait may have been
  // expected that has not come; from then on what calls for the thread wakes it: see announce().
  const bool wake = added.first ? !thread_looks_soon()
                                : added.undriven > kUndrivenLimit && expect_wait_.exchange(false);
  if (wake) wake_owed_.store(true);
  if (bursts_.load() == 0) announce();
}

Status ProgressRole::end_burst() {
  int begun = bursts_.load();
  while (begun > 0 && !bursts_.compare_exchange_weak(begun, begun - 1)) continue;
  if (begun == 0) return Status(Code::kInvalidState, "end of a burst that was not begun");
  if (begun == 1) announce();
  return {};
}

// A caller that is expected to wait at once will look itself; if the caller does not wait, a thread
// that stands by looks soon.
void ProgressRole::announce() {
  placement_.move_here();
  const bool look = kick() && !thread_looks_soon();
  const bool owed = wake_owed_.load() && wake_owed_.exchange(false) && queue_.in_flight() > 0;
  if (look || owed) ensure_driver();
}

// Announces what has been submitted. The caller's thread does so unless somebody drives; then the
// driver does. True if the announcement left something to do, which no message from others would
// wake the thread for.
bool ProgressRole::kick() {
  bool look = false;
  while (queue_.has_news()) {
    if (!mutex_.try_lock()) break;
    const MutexLock role(mutex_, std::adopt_lock);
    look = engine_.announce() || look;
  }
  return look;
}

bool ProgressRole::progress() noexcept {
  if (left_to_waiter_.load(std::memory_order_relaxed)) left_to_waiter_.store(false);
  bool moved = engine_.progress();
  // The round may have taken in the interrupt meant for the sleeping thread. `interrupted_` is not
  // cleared before the round, or an interrupt that comes in between would be lost; and the thread
  // that interrupts has something that wants another look.
  if (interrupted_.load() && interrupted_.exchange(false)) moved = true;
  return moved;
}

Status ProgressRole::wait(Operation& operation, Time deadline) {
  operation.awaited.store(true, std::memory_order_relaxed);
  expect_wait_.store(now() - queue_.first_submitted() < kPromptWait, std::memory_order_relaxed);
  bool look = false;
  {
    Waiter waiter(*this);
    Backoff backoff(policy_, contention_);
    while (!operation.done() && (deadline == kNever || now() < deadline)) {
      if (guests_.load() == 0 && mutex_.try_lock()) {
        look = drive_for(operation, deadline, waiter);
        backoff.reset();
        continue;
      }
      if (backoff.pause()) continue;
      waiter.step_aside();
      ensure_driver();
      operation.sleep_until(deadline);
      waiter.come_back();
    }
  }
  if (look || queue_.in_flight() > 0 || left_to_waiter_.load()) ensure_driver();
  return operation.done() ? Status() : Status::pending();
}

// True if something is left to do for the next driver.
bool ProgressRole::drive_for(Operation& operation, Time deadline, Waiter& waiter) {
  MutexLock role(mutex_, std::adopt_lock);
  begin_driving();
  Backoff backoff(policy_, contention_);
  Time last_poke{};
  while (!operation.done() && guests_.load(std::memory_order_relaxed) == 0) {
    if (progress()) {
      backoff.reset();
      continue;
    }
    if (deadline != kNever && engine_.time() >= deadline) break;
    engine_.poke_stragglers(backoff.waited(), &last_poke);
    if (backoff.pause()) continue;
    if (look_again_soon(backoff.waited())) continue;
    if (!announce_sleep()) continue;
    // The rank sleeps from here on: the thread takes over when the bell rings, or this thread when
    // time is up.
    Time until = std::min(deadline, engine_.next_tick());
    // before the role is free: a caller that submits from then on wakes the thread itself
    waiter.step_aside();
    role.unlock();
    kick() ? ensure_driver() : ensure_standby_ends();
    operation.sleep_until(until);
    waiter.come_back();
    return false;
  }
  // the fabric has been left, and its bell is rung for the thread to end
  if (stopping_.load()) return false;
  const bool quiet = prepare_to_leave();
  role.unlock();
  return kick() || !quiet;
}

void ProgressRole::begin_driving() {
  fabric_.park_end();
  engine_.look_at_clock();
}

// True if a data plane is under way that rings no bell; then a moment has passed. Long waits are
// cheap at the price of a little latency, which is small beside them.
bool ProgressRole::look_again_soon(Duration waited) {
  if (!engine_.must_poll()) return false;
  if (waited < kNapAfter) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
  return true;
}

// True if this rank may sleep: the bell works, and nothing came between the last look and the
// announcement that this rank sleeps, neither a message nor a counter that a running operation
// waits for.
bool ProgressRole::announce_sleep() {
  if (fabric_.park_begin() && !progress()) return true;
  fabric_.park_end();
  return false;
}

// Called before the role is given up, while this rank may still serve others: the bell works again
// before the role is free. False if somebody must drive on.
bool ProgressRole::prepare_to_leave() {
  bool quiet = fabric_.park_begin();
  for (int round = 0; !quiet && round < 4; ++round) {
    fabric_.park_end();
    progress();
    quiet = fabric_.park_begin();
  }
  return quiet;
}

void ProgressRole::nudge() {
  if (guests_.load() > 0 || !mutex_.try_lock()) return;
  MutexLock role(mutex_, std::adopt_lock);
  engine_.look_at_clock();
  const bool moved = !stopping_.load() && progress();
  role.unlock();
  // The kick comes after a move, too: the look may have taken in the bell that was meant to wake
  // the thread, and that bell rings no more.
  const bool look = kick();
  if (moved || look || queue_.in_flight() > 0) ensure_driver();
}

void ProgressRole::collect_metrics() {
  if (guests_.load() > 0 || !mutex_.try_lock()) return;
  MutexLock role(mutex_, std::adopt_lock);
  engine_.collect_metrics();
  role.unlock();
  announce();
}

void ProgressRole::ensure_standby_ends() {
  if (!thread_standing_by_.load() || active_waiters_.load() > 0) return;
  MutexLock lock(handover_mutex_);
  handover_.notify_all();
}

void ProgressRole::ensure_driver() noexcept {
  ensure_standby_ends();
  // before waiters are counted: a waiter that stops waiting does both in the other order
  left_to_waiter_.store(true);
  if (active_waiters_.load() > 0) return;
  left_to_waiter_.store(false);
  if (!interrupted_.exchange(true)) fabric_.interrupt();
}

}  // namespace hvd::engine
