// SPDX-License-Identifier: Apache-2.0
// ProgressRole: the engine's own thread, which drives when nobody waits.
#include <poll.h>
#include <pthread.h>

#include "base/threads.h"
#include "engine/progress_role.h"

namespace hvd::engine {

namespace {

constexpr int kRoleAttempts = 16;

}  // namespace

Status ProgressRole::start() {
  return start_thread([this] { run_thread(); }, "the engine's thread", &thread_);
}

void ProgressRole::run_thread() {
  pthread_setname_np(pthread_self(), "hvd engine");  // for top, gdb and the report
  placement_.begin();
  bool look_first = true;
  while (!stopping_.load()) {
    if (!look_first) {
      count(metrics_.engine_parks);
      // poll() and not epoll_wait(), which would take the event from the driver that looks at the
      // descriptors then.
      pollfd news{fabric_.wait_fd(), POLLIN, 0};
      ::poll(&news, 1, alarm_.milliseconds(queue_.in_flight() > 0));
      count(metrics_.engine_wakeups);
    }
    look_first = false;
    interrupted_.store(false);
    if (stopping_.load()) return;
    if (take_for_thread()) {
      look_first = !drive_thread();
      continue;
    }
    stand_by();
    look_first = true;
  }
}

// False if others want to drive. Threads that only pass through hold the role for a moment, which
// is not worth standing by for.
bool ProgressRole::take_for_thread() {
  for (int attempt = 0; attempt < kRoleAttempts; ++attempt) {
    if (active_waiters_.load() > 0 || guests_.load() > 0) return false;
    if (mutex_.try_lock()) return true;
    sched_yield();
  }
  return false;
}

// Somebody else drives; sockets must not keep this thread busy meanwhile. A waiter that leaves
// operations in flight wakes this thread. A waiter that leaves none does not, to save the blocking
// pattern a system call; this thread notices soon after.
void ProgressRole::stand_by() {
  MutexLock lock(handover_mutex_);
  thread_standing_by_.store(true);
  std::chrono::milliseconds patience(1);
  while (!stopping_.load() && (active_waiters_.load() > 0 || guests_.load() > 0 || taken())) {
    handover_.wait_for(lock.native(), patience);
    patience = std::min(patience * 2, std::chrono::milliseconds(8));
  }
  thread_standing_by_.store(false);
}

// A caller that only passes through holds the role for a moment, unless the system has taken the
// caller's core away.
bool ProgressRole::taken() {
  if (!mutex_.try_lock()) return true;
  mutex_.unlock();
  return false;
}

// False if the thread stopped for others who want the role: the bell does not work then, and the
// others may be gone before they take the role.
bool ProgressRole::drive_thread() {
  MutexLock role(mutex_, std::adopt_lock);
  begin_driving();
  Backoff backoff(policy_, contention_);
  Time last_poke{};
  bool asleep = false;
  while (!asleep) {
    if (active_waiters_.load() > 0 || guests_.load() > 0 || stopping_.load()) break;
    if (progress()) {
      backoff.reset();
      continue;
    }
    engine_.poke_stragglers(backoff.waited(), &last_poke);
    if (queue_.in_flight() > 0 && backoff.pause()) continue;
    if (look_again_soon(backoff.waited())) continue;
    asleep = announce_sleep();
  }
  role.unlock();
  if (kick()) ensure_driver();
  return asleep;
}

}  // namespace hvd::engine
