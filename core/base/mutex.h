// SPDX-License-Identifier: Apache-2.0
// std::mutex and std::unique_lock with annotations for clang, which does not see libstdc++'s own
// lock anything.
#pragma once

#include <mutex>

#include "base/thread_annotations.h"

namespace hvd {

class HVD_CAPABILITY("mutex") Mutex {
 public:
  void lock() HVD_ACQUIRE() { mutex_.lock(); }
  bool try_lock() HVD_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() HVD_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

class HVD_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HVD_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  // Takes over a mutex that the caller has locked.
  MutexLock(Mutex& mutex, std::adopt_lock_t) HVD_REQUIRES(mutex)
      : lock_(mutex.mutex_, std::adopt_lock) {}
  // The caller locks the mutex later.
  MutexLock(Mutex& mutex, std::defer_lock_t) HVD_EXCLUDES(mutex)
      : lock_(mutex.mutex_, std::defer_lock) {}
  ~MutexLock() HVD_RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() HVD_ACQUIRE() { lock_.lock(); }
  void unlock() HVD_RELEASE() { lock_.unlock(); }
  // For a condition variable, which lets go of the mutex while it waits and holds it again when it
  // returns.
  std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace hvd
