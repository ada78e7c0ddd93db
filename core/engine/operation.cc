// SPDX-License-Identifier: Apache-2.0
#include "engine/operation.h"

#include <utility>

#include "base/futex.h"

namespace hvd::engine {

void Operation::complete(Status status) {
  result_ = std::move(status);
  if (state_.exchange(kDone, std::memory_order_acq_rel) == kPendingWithSleeper) futex_wake_all(state_);
}

void Operation::sleep_until(Time deadline) {
  uint32_t expected = kPending;
  state_.compare_exchange_strong(expected, kPendingWithSleeper, std::memory_order_acq_rel);
  if (!done()) futex_wait(state_, kPendingWithSleeper, deadline);
}

void Operation::drop_reference() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

Operation::Registered Operation::set_callback(Callback callback, void* user_data) {
  uint32_t expected = kFree;
  if (callback_state_.compare_exchange_strong(expected, kWriting, std::memory_order_acq_rel)) {
    callback_ = callback;
    callback_data_ = user_data;
    expected = kWriting;
    if (callback_state_.compare_exchange_strong(expected, kSet, std::memory_order_acq_rel)) return Registered::kNow;
  }
  // The operation ended before or while we wrote.
  expected = kEnded;
  if (!callback_state_.compare_exchange_strong(expected, kUsed, std::memory_order_acq_rel)) return Registered::kRefused;
  callback_ = callback;
  callback_data_ = user_data;
  return Registered::kAfterEnd;
}

Operation::Callback Operation::take_callback(void** user_data) {
  const uint32_t before = callback_state_.exchange(kEnded, std::memory_order_acq_rel);
  if (before != kSet) return nullptr;
  callback_state_.store(kUsed, std::memory_order_release);
  *user_data = callback_data_;
  return callback_;
}

}  // namespace hvd::engine
