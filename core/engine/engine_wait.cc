// SPDX-License-Identifier: Apache-2.0
// Engine: the choice of the driver, and how waiting and sleeping go.
//
// The role is a mutex. The role's holder has announced to the other ranks that this rank looks at memory by itself (park_end);
// before the holder gives the role up it announces the opposite (park_begin), after which senders ring the bell and the
// engine's thread, asleep on wait_fd(), takes over. So at any time either somebody holds the role, or the bell works; except
// while the thread makes room for a caller: the thread drives once more before it sleeps, because the caller may have gone
// without driving.
//
// The bell of a rank with nothing in flight is not rung, so with the rank's first operation somebody must look at what has
// come: a caller that waits at once, which is expected of callers that did so before, or the thread, which is woken to look or
// stands by.
#include <poll.h>

#include <algorithm>

#include "base/cores.h"
#include "engine/engine.h"

namespace hvd::engine {

namespace {

// Looking at the clock, at deadlines and at who is late happens every so many rounds without progress.
constexpr unsigned kRoundsPerLook = 64;
constexpr Duration kPokeAfter = std::chrono::microseconds(30);
constexpr Duration kPokeAgain = std::chrono::microseconds(200);
constexpr Duration kNapAfter = std::chrono::milliseconds(1);
constexpr Duration kNap = std::chrono::microseconds(50);
// A wait that begins so soon after the first submission is the blocking pattern, be it of one operation or of a burst.
constexpr Duration kPromptWait = std::chrono::microseconds(300);
constexpr int kRoleAttempts = 16;

}  // namespace

// The context ends when there is no memory for the work that driving finds; the driver goes on to find that out.
bool Engine::progress() noexcept {
  return attempt([this]() HVD_REQUIRES(role_) { return look_round(); });
}

bool Engine::look_round() {
  if (left_to_waiter_.load(std::memory_order_relaxed)) left_to_waiter_.store(false);
  bool moved = accept();
  home_.go_there();
  moved = fabric_->poll(*this) || moved;
  // The poll may have taken in the interrupt meant for the sleeping thread. `interrupted_` is not cleared before the poll, or
  // an interrupt that comes in between would be lost; and the thread that interrupts has something that wants another look.
  if (interrupted_.load() && interrupted_.exchange(false)) moved = true;
  for (const auto& [serial, set] : sets_) {
    moved = set->progress(time_) || moved;
    if (const Time at = set->held_until(); at < next_tick_) tick_by(at);
  }
  if (!ended_sets_.empty()) apply_ended_sets();
  if (!breaking_.ok()) apply_break();
  if (moved || ++rounds_ % kRoundsPerLook == 0) time_ = now();
  if (time_ >= next_tick_) tick();
  return moved;
}

void Engine::tick() {
  next_tick_ = kNever;
  for (const auto& [serial, set] : sets_) {
    set->collect_metrics();
    next_tick_ = std::min(next_tick_, set->tick(time_));
  }
  if (!breaking_.ok()) apply_break();
  owes_answers_.store(std::any_of(sets_.begin(), sets_.end(), [](const auto& set) { return set.second->owes_answer(); }),
                      std::memory_order_relaxed);
  tick_by(in_flight_.load() > 0 ? time_ + kTickEvery : kNever);
}

// The engine's thread reads tick_at_ when it goes to sleep, without the role.
void Engine::tick_by(Time at) {
  next_tick_ = std::min(next_tick_, at);
  tick_at_.store(next_tick_.time_since_epoch().count(), std::memory_order_relaxed);
}

// A rank that computes does not look at memory; when others have waited a while for the rank's part, they wake its thread.
void Engine::poke_laggards(Duration waited, Time* last_poke) {
  if (waited < kPokeAfter) return;
  const Time time = now();
  if (time - *last_poke < kPokeAgain) return;
  *last_poke = time;
  for (const auto& [serial, set] : sets_) {
    for (const int rank : {set->laggard(), set->undecided_with()}) {
      if (rank < 0 || rank == topology_.rank()) continue;
      fabric_->poke(rank);
      count(metrics_.pokes_sent);
    }
  }
}

Status Engine::wait(Operation& operation, Time deadline) {
  if (operation.done()) return {};
  if (fork_guard_.forked()) {
    return Status(Code::kInvalidState, operation.subject_so_far() + ": this context belongs to the parent of this process");
  }
  if (completions_.on_callback_thread()) {
    return Status(Code::kWouldDeadlock, operation.subject_so_far() + ": waiting inside a callback");
  }
  operation.awaited.store(true, std::memory_order_relaxed);
  const Time first{Duration(first_undriven_.load(std::memory_order_relaxed))};
  expect_wait_.store(now() - first < kPromptWait, std::memory_order_relaxed);
  bool look = false;
  {
    Waiter waiter(*this);
    Backoff backoff(backoff_, crowd_);
    while (!operation.done() && (deadline == kNever || now() < deadline)) {
      if (guests_.load() == 0 && role_.try_lock()) {
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
  if (look || in_flight_.load() > 0 || left_to_waiter_.load()) ensure_driver();
  return operation.done() ? Status() : Status::pending();
}

// True if something is left to do for the next driver.
bool Engine::drive_for(Operation& operation, Time deadline, Waiter& waiter) {
  MutexLock role(role_, std::adopt_lock);
  begin_driving();
  Backoff backoff(backoff_, crowd_);
  Time last_poke{};
  while (!operation.done() && guests_.load(std::memory_order_relaxed) == 0) {
    if (progress()) {
      backoff.reset();
      continue;
    }
    if (deadline != kNever && time_ >= deadline) break;
    poke_laggards(backoff.waited(), &last_poke);
    if (backoff.pause()) continue;
    if (look_again_soon(backoff.waited())) continue;
    if (!announce_sleep()) continue;
    // The rank sleeps from here on: the thread takes over when the bell rings, or this thread when time is up.
    Time until = std::min(deadline, next_tick_);
    waiter.step_aside();  // before the role is free: a caller that submits from then on wakes the thread itself
    role.unlock();
    kick() ? ensure_driver() : ensure_standby_ends();
    operation.sleep_until(until);
    waiter.come_back();
    return false;
  }
  if (stopping_.load()) return false;  // the fabric has been left, and its bell is rung for the thread to end
  const bool quiet = prepare_to_leave();
  role.unlock();
  return kick() || !quiet;
}

void Engine::begin_driving() {
  fabric_->park_end();
  time_ = now();
}

// True if a data plane is under way that rings no bell; then a moment has passed. Long waits are cheap at the price of a
// little latency, which is small beside them.
bool Engine::look_again_soon(Duration waited) {
  if (std::none_of(sets_.begin(), sets_.end(), [](const auto& set) { return set.second->must_poll(); })) return false;
  if (waited < kNapAfter) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
  return true;
}

// True if this rank may sleep: the bell works, and nothing came between the last look and the announcement that this rank
// sleeps, neither a message nor a counter that a running operation waits for.
bool Engine::announce_sleep() {
  if (fabric_->park_begin() && !progress()) return true;
  fabric_->park_end();
  return false;
}

// Called before the role is given up, while this rank may still serve others: the bell works again before the role is free.
// False if somebody must drive on.
bool Engine::prepare_to_leave() {
  bool quiet = fabric_->park_begin();
  for (int round = 0; !quiet && round < 4; ++round) {
    fabric_->park_end();
    progress();
    quiet = fabric_->park_begin();
  }
  return quiet;
}

void Engine::nudge() {
  if (guests_.load() > 0 || !role_.try_lock()) return;
  MutexLock role(role_, std::adopt_lock);
  time_ = now();
  const bool moved = !stopping_.load() && progress();
  role.unlock();
  // The kick comes after a move, too: the look may have taken in the bell that was meant to wake the thread, and that bell
  // rings no more.
  const bool look = kick();
  if (moved || look || in_flight_.load() > 0) ensure_driver();
}

Engine::Guest::Guest(Engine& engine) : engine_(engine), role_(engine.role_, std::defer_lock) {
  engine_.guests_.fetch_add(1);
  role_.lock();
  engine_.begin_driving();
}

Engine::Guest::~Guest() {
  engine_.guests_.fetch_sub(1);
  if (engine_.stopping_.load()) return;
  engine_.prepare_to_leave();
  role_.unlock();
  engine_.kick();
  // Needed whatever kick() says: the drivers that stepped aside for the guest may sleep by now.
  engine_.ensure_driver();
}

void Engine::ensure_standby_ends() {
  if (!thread_standing_by_.load() || active_waiters_.load() > 0) return;
  MutexLock lock(handover_mutex_);
  handover_.notify_all();
}

void Engine::ensure_driver() {
  ensure_standby_ends();
  left_to_waiter_.store(true);  // before waiters are counted: a waiter that stops waiting does both in the other order
  if (active_waiters_.load() > 0) return;
  left_to_waiter_.store(false);
  if (!interrupted_.exchange(true)) fabric_->interrupt();
}

void Engine::run_thread() {
  home_.begin();
  prefer_short_slices();  // this thread does little at a time, for which other ranks wait
  bool look_first = true;
  while (!stopping_.load()) {
    if (!look_first) {
      count(metrics_.engine_parks);
      // poll() and not epoll_wait(), which would take the event from the driver that looks at the descriptors then.
      pollfd news{fabric_->wait_fd(), POLLIN, 0};
      ::poll(&news, 1, sleep_milliseconds());
      count(metrics_.engine_wakeups);
    }
    look_first = false;
    interrupted_.store(false);
    if (stopping_.load()) return;
    if (take_role()) {
      look_first = !drive_thread();
      continue;
    }
    stand_by();
    look_first = true;
  }
}

// False if others want to drive. Threads that only pass through hold the role for a moment, which is not worth standing by for.
bool Engine::take_role() {
  for (int attempt = 0; attempt < kRoleAttempts; ++attempt) {
    if (active_waiters_.load() > 0 || guests_.load() > 0) return false;
    if (role_.try_lock()) return true;
    sched_yield();
  }
  return false;
}

// Somebody else drives; sockets must not keep this thread busy meanwhile. A waiter that leaves operations in flight wakes this
// thread. A waiter that leaves none does not, to save the blocking pattern a system call; this thread notices soon after.
void Engine::stand_by() {
  MutexLock lock(handover_mutex_);
  thread_standing_by_.store(true);
  std::chrono::milliseconds patience(1);
  while (!stopping_.load() && (active_waiters_.load() > 0 || guests_.load() > 0 || role_taken())) {
    handover_.wait_for(lock.native(), patience);
    patience = std::min(patience * 2, std::chrono::milliseconds(8));
  }
  thread_standing_by_.store(false);
}

// A caller that only passes through holds the role for a moment, unless the system has taken the caller's core away.
bool Engine::role_taken() {
  if (!role_.try_lock()) return true;
  role_.unlock();
  return false;
}

// False if the thread stopped for others who want the role: the bell does not work then, and the others may be gone before they
// take the role.
bool Engine::drive_thread() {
  MutexLock role(role_, std::adopt_lock);
  begin_driving();
  Backoff backoff(backoff_, crowd_);
  Time last_poke{};
  bool asleep = false;
  while (!asleep) {
    if (active_waiters_.load() > 0 || guests_.load() > 0 || stopping_.load()) break;
    if (progress()) {
      backoff.reset();
      continue;
    }
    poke_laggards(backoff.waited(), &last_poke);
    if (in_flight_.load() > 0 && backoff.pause()) continue;
    if (look_again_soon(backoff.waited())) continue;
    asleep = announce_sleep();
  }
  role.unlock();
  if (kick()) ensure_driver();
  return asleep;
}

int Engine::sleep_milliseconds() const {
  if (in_flight_.load() == 0 && !owes_answers_.load(std::memory_order_relaxed)) return -1;
  const Time at{Duration(tick_at_.load(std::memory_order_relaxed))};
  if (at == kNever) return 100;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at - now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 1, 1000));
}

}  // namespace hvd::engine
