// SPDX-License-Identifier: Apache-2.0
#include "engine/completions.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/bell.h"
#include "base/threads.h"

namespace hvd::engine {

Completions::~Completions() {
  stop();
  // only when the last reference went away inside a callback
  if (thread_.joinable()) thread_.detach();
  if (const int fd = descriptor_.load(); fd >= 0) close(fd);
}

Status Completions::prepare_calls() {
  MutexLock lock(shared_->mutex);
  if (thread_.joinable() || shared_->stopping) return {};
  return start_thread(
      [shared = shared_, cores = cores_] {
        cores.use();
        run(shared);
      },
      "the thread for callbacks", &thread_);
}

void Completions::call(Operation::Callback callback, void* user_data,
                       Operation* operation) noexcept {
  operation->called = callback;
  operation->called_data = user_data;
  {
    MutexLock lock(shared_->mutex);
    if (!shared_->stopping) {
      shared_->calls.push(operation);
      shared_->changed.notify_one();
      return;
    }
  }
  // The context has gone, and with it the thread; the handle and its result are still there.
  std::thread late;
  const auto body = [operation] { run_call(operation); };
  if (start_thread(body, "the thread for a callback", &late).ok()) {
    late.detach();
  } else {
    run_call(operation);
  }
}

void Completions::run_call(Operation* operation) {
  operation->called(operation->called_data, operation,
                    static_cast<int32_t>(operation->result().code()));
  operation->drop_reference();
}

void Completions::run(const std::shared_ptr<Shared>& shared) {
  shared->thread_id.store(std::this_thread::get_id());
  MutexLock lock(shared->mutex);
  for (;;) {
    while (!shared->stopping && shared->calls.empty()) shared->changed.wait(lock.native());
    if (shared->calls.empty()) return;
    Operation* const operation = shared->calls.pop();
    lock.unlock();
    run_call(operation);
    lock.lock();
  }
}

Result<int> Completions::descriptor() {
  MutexLock lock(queue_mutex_);
  int fd = descriptor_.load();
  if (fd >= 0) return fd;
  fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return io_error("completions: eventfd", errno);
  descriptor_.store(fd, std::memory_order_release);
  return fd;
}

void Completions::queue(Operation* operation) noexcept {
  MutexLock lock(queue_mutex_);
  const bool was_empty = ended_.empty();
  ended_.push(operation);
  if (was_empty) ring(descriptor_.load());
}

Operation* Completions::pop() {
  MutexLock lock(queue_mutex_);
  if (ended_.empty()) return nullptr;
  Operation* const operation = ended_.pop();
  if (ended_.empty()) {
    uint64_t drained = 0;
    // EAGAIN: nothing to reset
    if (read(descriptor_.load(), &drained, sizeof drained) < 0) return operation;
  }
  return operation;
}

void Completions::stop() {
  {
    MutexLock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
  }
  if (thread_.joinable() && !on_callback_thread()) thread_.join();
  // An operation keeps its engine, and with the engine this queue: an operation that nobody has
  // taken would stay for ever.
  while (Operation* operation = pop()) operation->drop_reference();
}

}  // namespace hvd::engine
