// SPDX-License-Identifier: Apache-2.0
// Operations that have ended, kept for their memory.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/operation.h"

namespace hvd::engine {

class OperationPool {
 public:
  OperationPool() { unused_.reserve(kKept); }

  // An empty operation, if possible a used one with its memory.
  std::unique_ptr<Operation> take() {
    MutexLock lock(mutex_);
    if (unused_.empty()) return std::make_unique<Operation>();
    std::unique_ptr<Operation> operation = std::move(unused_.back());
    unused_.pop_back();
    return operation;
  }
  void give(std::unique_ptr<Operation> operation) {
    operation->reset();
    MutexLock lock(mutex_);
    if (unused_.size() < unused_.capacity()) unused_.push_back(std::move(operation));
  }

 private:
  // A training step can have more than a thousand operations in flight.
  static constexpr size_t kKept = 2048;

  Mutex mutex_;
  std::vector<std::unique_ptr<Operation>> unused_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd::engine
