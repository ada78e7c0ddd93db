// SPDX-License-Identifier: Apache-2.0
// What ffi_handlers.cc stands on: the functions of libhvd, memory, threads.
#pragma once

#include <dlfcn.h>
#include <hvd/hvd.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "kinds.h"

namespace hvd::jax {

// The functions of libhvd, which is loaded already, from wherever Python found it.
struct Library {
  // By kind; null where there is none.
  decltype(&hvd_allreduce_async) single[kKinds];
  decltype(&hvd_grouped_allreduce_async) grouped[kKinds];
  decltype(&hvd_alltoallv_async) alltoall;
  decltype(&hvd_process_set_find) set_find;
  decltype(&hvd_process_set_ranks) set_ranks;
  decltype(&hvd_process_set_free) set_free;
  decltype(&hvd_wait) wait;
  decltype(&hvd_handle_then) then;
  decltype(&hvd_handle_output) output;
  decltype(&hvd_handle_free) handle_free;
  decltype(&hvd_status_name) status_name;
  decltype(&hvd_dtype_size) dtype_size;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

inline bool load(void* from, Library& to) {
  for (int32_t kind = 0; kind < kKinds; ++kind) {
    const char* single = kSingleFunctions[kind];
    const char* grouped = kGroupedFunctions[kind];
    if (single != nullptr && !find(from, single, to.single[kind])) return false;
    if (grouped != nullptr && !find(from, grouped, to.grouped[kind])) return false;
  }
  return find(from, "hvd_alltoallv_async", to.alltoall) &&
         find(from, "hvd_process_set_find", to.set_find) &&
         find(from, "hvd_process_set_ranks", to.set_ranks) &&
         find(from, "hvd_process_set_free", to.set_free) && find(from, "hvd_wait", to.wait) &&
         find(from, "hvd_handle_then", to.then) && find(from, "hvd_handle_output", to.output) &&
         find(from, "hvd_handle_free", to.handle_free) &&
         find(from, "hvd_status_name", to.status_name) &&
         find(from, "hvd_dtype_size", to.dtype_size);
}

// Memory for data on its way. Memory that was given back is kept for the next operation: fresh
// pages cost more than the copy.
class Room {
 public:
  struct Piece {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
  };

  Piece take(size_t size) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = free_.lower_bound(size);
      if (found != free_.end() && found->first <= 2 * size + 4096) {
        Piece piece{std::move(found->second), found->first};
        free_.erase(found);
        return piece;
      }
    }
    return {std::unique_ptr<char[]>(new char[size ? size : 1]), size};
  }

  void give_back(Piece piece) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.size() >= kMost) free_.erase(free_.begin());
    free_.emplace(piece.size, std::move(piece.bytes));
  }

 private:
  static constexpr size_t kMost = 256;
  std::mutex mutex_;
  std::multimap<size_t, std::unique_ptr<char[]>> free_;
};

// Threads on which XLA goes on after an operation. The engine's own callback thread must not do
// that: the program may compute for long, or wait for another operation.
class Threads {
 public:
  void run(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    works_.push_back(std::move(work));
    if (idle_ < works_.size())
      std::thread([this] { loop(); }).detach();
    else
      woken_.notify_one();
  }

 private:
  void loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      ++idle_;
      woken_.wait(lock, [this] { return !works_.empty(); });
      --idle_;
      const auto work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  std::deque<std::function<void()>> works_;
  size_t idle_ = 0;
};

}  // namespace hvd::jax
