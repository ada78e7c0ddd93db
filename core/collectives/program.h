// SPDX-License-Identifier: Apache-2.0
// A collective algorithm as a resumable program. Algorithms are written top to bottom as C++20
// coroutines that `co_await` a counter in shared memory or room on a stream; the engine calls
// step() whenever it has time. Nothing blocks, so operations of several process sets interleave on
// one thread, and destroying a program abandons it at once.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <utility>

namespace hvd::collectives {

// The event that a suspended program waits for. Evaluated by step() without resuming the coroutine.
struct Condition {
  // satisfied when *counter - at_least >= 0 (wrapping), or:
  const std::atomic<uint32_t>* counter = nullptr;
  uint32_t at_least = 0;
  // satisfied when ready(self) is true (streams: try to move bytes)
  bool (*ready)(void* self) = nullptr;
  void* self = nullptr;
  int member = -1;  // member index of the rank whose action is awaited, -1 if unknown
  // set by ready() when it got something done without being satisfied; step() clears it
  bool* moved = nullptr;

  bool satisfied() const {
    if (counter != nullptr) {
      return static_cast<int32_t>(counter->load(std::memory_order_acquire) - at_least) >= 0;
    }
    return ready(self);
  }
};

class Program {
 public:
  struct promise_type {
    Condition waiting;
    bool finished = false;

    Program get_return_object() {
      return Program(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept {
      finished = true;
      return {};
    }
    void return_void() noexcept {}
    // There is no memory for the algorithm. The driver learns it, and gives the program up.
    void unhandled_exception() {
      finished = true;
      throw;
    }

    struct Await {
      promise_type* promise;
      Condition condition;
      bool await_ready() const { return condition.satisfied(); }
      void await_suspend(std::coroutine_handle<>) const { promise->waiting = condition; }
      void await_resume() const noexcept {}
    };
    Await await_transform(const Condition& condition) { return {this, condition}; }
  };

  Program() = default;
  Program(Program&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), started_(other.started_) {}
  Program& operator=(Program&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(started_, other.started_);
    return *this;
  }
  ~Program() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return !handle_ || handle_.promise().finished; }
  // Runs until the program must wait. True if it moved at all.
  bool step() {
    if (done()) return false;
    promise_type& promise = handle_.promise();
    if (started_ && !promise.waiting.satisfied()) {
      return promise.waiting.moved != nullptr && std::exchange(*promise.waiting.moved, false);
    }
    started_ = true;
    handle_.resume();
    return true;
  }
  // Member index whose action is awaited, or -1.
  int waiting_for() const { return done() || !started_ ? -1 : handle_.promise().waiting.member; }

 private:
  explicit Program(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
  bool started_ = false;
};

// The program is done; runs it, as a part of the one that waits.
inline Condition over(Program& program) {
  return {.ready =
              [](void* self) {
                Program& inner = *static_cast<Program*>(self);
                while (inner.step()) {
                }
                return inner.done();
              },
          .self = &program};
}

}  // namespace hvd::collectives
