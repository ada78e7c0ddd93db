// SPDX-License-Identifier: Apache-2.0
#include "engine/operation.h"

#include <stdlib.h>  // posix_memalign
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/futex.h"
#include "engine/engine.h"

namespace hvd::engine {

namespace {

// Results start on a cache line: the kernels' aligned paths apply.
constexpr size_t kLine = 64;
// From this size glibc has new memory for each result, of which a page of 4 KB takes longer to get
// than to fill. Glibc keeps smaller results at times; huge pages in those were seen to take three
// times as long as small ones, in a virtual machine.
constexpr size_t kWorthHugePages = 32 << 20;

void ask_for_huge_pages(void* memory, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory) / page * page;
  // If huge pages are refused, small pages will do.
  ::madvise(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(memory) + bytes - begin,
            MADV_HUGEPAGE);
}

}  // namespace

Status Operation::own_output(OpTensor& tensor, size_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kLine, bytes == 0 ? kLine : bytes) != 0) {
    return Status(Code::kOutOfMemory,
                  subject() + ": no memory for a result of " + std::to_string(bytes) + " bytes");
  }
  owned.emplace_back(memory);
  tensor.out = memory;
  if (bytes >= kWorthHugePages) ask_for_huge_pages(memory, bytes);
  return {};
}

void Operation::complete(Status status) {
  result_ = std::move(status);
  if (state_.exchange(kDone, std::memory_order_acq_rel) == kPendingWithSleeper)
    futex_wake_all(state_);
}

void Operation::sleep_until(Time deadline) {
  uint32_t expected = kPending;
  state_.compare_exchange_strong(expected, kPendingWithSleeper, std::memory_order_acq_rel);
  if (!done()) futex_wait(state_, kPendingWithSleeper, deadline);
}

void Operation::drop_reference() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::unique_ptr<Operation> self(this);
  // The operation may hold the last reference to its engine, so the engine is kept until the end of
  // this function.
  if (const std::shared_ptr<Engine> last = std::move(engine)) last->recycle(std::move(self));
}

void Operation::drop_reference_of_caller() {
  // Results on a device are freed here only: freeing waits for the device, and the driver of the
  // engine must not wait for it.
  const std::shared_ptr<Engine> of_device = staging ? engine : nullptr;
  drop_reference();
  if (of_device) of_device->devices().free_results();
}

Status Operation::has_results() const {
  if (!done()) return Status(Code::kInvalidState, subject_so_far() + ": has not ended yet");
  if (!result().ok()) return Status(Code::kInvalidState, subject() + ": failed and has no result");
  return {};
}

void Operation::reset() {
  // `tensors` stays as it is: the caller that fills the operation again resizes `tensors` and
  // writes every field.
  key.clear();
  unnamed = false;
  op = ReduceOp::kSum;
  root = 0;
  prescale = 1.0;
  postscale = 1.0;
  priority = 0;
  deadline = kNever;
  variable.clear();
  numbers.clear();
  signature.clear();
  gathered_payload.clear();
  payload = {};
  eager = false;
  staging.reset();
  set.reset();
  owned.clear();
  received_rows.clear();
  confirms.reset();
  last_joined = -1;
  split.reset();
  label = 0;
  agreement = {};
  group = 0;
  agreed = 0;
  begun = 0;
  next_report = kNever;
  withdrawn = kNever;
  asked = kNever;
  asked_last = false;
  report_due = false;
  unanswered = false;
  missing.clear();
  missing_ranks.clear();
  awaited.store(false, std::memory_order_relaxed);
  callback_ = nullptr;
  called = nullptr;
  result_ = {};
  state_.store(kPending, std::memory_order_relaxed);
  callback_state_.store(kFree, std::memory_order_relaxed);
  references_.store(1, std::memory_order_relaxed);
}

OperationRecord record_of(const Operation& operation) {
  OperationRecord record;
  record.submitted = operation.submitted.time_since_epoch().count();
  record.kind = static_cast<uint8_t>(operation.kind);
  record.op = static_cast<uint8_t>(operation.op);
  record.tensors = static_cast<uint32_t>(operation.tensors.size());
  if (operation.tensors.empty()) return record;
  const OpTensor& first = operation.tensors[0];
  record.dtype = static_cast<uint8_t>(first.dtype);
  record.ndim = static_cast<uint8_t>(std::min<size_t>(first.dims.size(), UINT8_MAX));
  std::copy_n(first.dims.begin(), std::min(first.dims.size(), record.shape.size()),
              record.shape.begin());
  for (const OpTensor& tensor : operation.tensors)
    record.bytes += tensor.count() * dtype_size(tensor.dtype);
  return record;
}

Operation::Registered Operation::set_callback(Callback callback, void* user_data) {
  uint32_t expected = kFree;
  if (callback_state_.compare_exchange_strong(expected, kWriting, std::memory_order_acq_rel)) {
    callback_ = callback;
    callback_data_ = user_data;
    expected = kWriting;
    if (callback_state_.compare_exchange_strong(expected, kSet, std::memory_order_acq_rel))
      return Registered::kNow;
  }
  // The operation ended before or while we wrote.
  expected = kEnded;
  const bool free =
      callback_state_.compare_exchange_strong(expected, kUsed, std::memory_order_acq_rel);
  return free ? Registered::kAfterEnd : Registered::kRefused;
}

Operation::Callback Operation::take_callback(void** user_data) {
  // The state changes in one step: a second callback that comes now must find the slot used, not
  // free.
  uint32_t before = callback_state_.load(std::memory_order_acquire);
  while (!callback_state_.compare_exchange_weak(before, before == kSet ? kUsed : kEnded,
                                                std::memory_order_acq_rel))
    continue;
  if (before != kSet) return nullptr;
  *user_data = callback_data_;
  return callback_;
}

}  // namespace hvd::engine
