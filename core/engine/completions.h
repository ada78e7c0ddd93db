// SPDX-License-Identifier: Apache-2.0
// How an ended operation is announced to those who do not wait: callbacks on one thread of the
// context, and a queue with a file descriptor for event loops.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/cores.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/operation.h"

namespace hvd::engine {

class Completions {
 public:
  // Callbacks run on these cores, whichever thread has the first one.
  explicit Completions(const Cores& cores) : cores_(cores) {}
  ~Completions();

  // Starts the thread of the callbacks if there is none yet. The call comes before an operation
  // gets a callback: ending an operation cannot fail.
  Status prepare_calls();
  // Arranges the callback of an operation that has ended; takes over one reference to it.
  void call(Operation::Callback callback, void* user_data, Operation* operation) noexcept;
  bool on_callback_thread() const {
    return shared_->thread_id.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // The descriptor, made at the first call.
  Result<int> descriptor();
  bool queueing() const { return descriptor_.load(std::memory_order_acquire) >= 0; }
  // Takes over one reference.
  void queue(Operation* operation) noexcept;
  // The oldest queued operation with its reference, or nullptr.
  Operation* pop();

  // Runs the callbacks still queued, ends the thread and forgets operations that nobody has popped.
  // A call on the callback thread itself only asks for the end.
  void stop();

 private:
  // A queue is first in, first out. The operations hold the queue together by one of their
  // pointers, so the queue needs no memory.
  template <Operation* Operation::* kNext>
  class Queue {
   public:
    bool empty() const { return first_ == nullptr; }
    void push(Operation* operation) noexcept {
      operation->*kNext = nullptr;
      (first_ == nullptr ? first_ : last_->*kNext) = operation;
      last_ = operation;
    }
    Operation* pop() noexcept {
      Operation* const operation = first_;
      first_ = operation->*kNext;
      return operation;
    }

   private:
    Operation* first_ = nullptr;
    Operation* last_ = nullptr;
  };
  // The shared part outlives the Completions if the last reference to the context goes away inside
  // a callback.
  struct Shared {
    Mutex mutex;
    std::condition_variable changed;
    Queue<&Operation::next_call> calls HVD_GUARDED_BY(mutex);
    bool stopping HVD_GUARDED_BY(mutex) = false;
    std::atomic<std::thread::id> thread_id{};
  };
  static void run(const std::shared_ptr<Shared>& shared);
  static void run_call(Operation* operation);

  const Cores cores_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;

  Mutex queue_mutex_;
  Queue<&Operation::next_ended> ended_ HVD_GUARDED_BY(queue_mutex_);
  std::atomic<int> descriptor_{-1};
};

}  // namespace hvd::engine
