// SPDX-License-Identifier: Apache-2.0
#include "operation.h"

#include <algorithm>
#include <chrono>

#include "errors.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

// The first slice is shorter because a signal that arrives just before the wait should not cost a
// whole one.
constexpr nanoseconds kFirstSlice = std::chrono::milliseconds(50);
constexpr nanoseconds kSlice = std::chrono::milliseconds(100);

}  // namespace

Operation::~Operation() {
  if (ended_ || hvd_test(handle_, nullptr) != HVD_PENDING)
    hvd_handle_free(handle_);
  else
    Orphans::of_process().adopt(handle_, std::move(kept_));
}

hvd_status wait_in_slices(hvd_handle* handle, std::optional<Clock::time_point> deadline,
                          hvd_error* error) {
  // What has ended already needs no GIL released, which another thread could then keep for
  // milliseconds.
  if (const hvd_status status = hvd_test(handle, error); status != HVD_PENDING) return status;
  for (nanoseconds slice = kFirstSlice;; slice = kSlice) {
    if (deadline)
      slice = std::clamp<nanoseconds>(*deadline - Clock::now(), nanoseconds::zero(), slice);
    hvd_status status = HVD_OK;
    {
      const py::gil_scoped_release released;
      status = hvd_wait(handle, slice.count(), error);
    }
    if (status != HVD_PENDING) return status;
    // Runs Python's signal handlers; does nothing on other threads than the main one.
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (deadline && Clock::now() >= *deadline) return status;
  }
}

bool Operation::wait(py::handle timeout_s) {
  std::optional<Clock::time_point> deadline;
  if (!timeout_s.is_none())
    deadline = Clock::now() + std::chrono::duration_cast<nanoseconds>(
                                  std::chrono::duration<double>(timeout_s.cast<double>()));
  hvd_error error = fresh_error();
  const hvd_status status = wait_in_slices(handle_, deadline, &error);
  if (status == HVD_PENDING) return false;
  ended_ = true;
  // Taken out first: dropping the buffers can run any Python code, which may ask this operation
  // again.
  const Kept done = std::exchange(kept_, Kept{});
  if (status != HVD_OK) raise_status(status, error, label_.cast<std::string>());
  return true;
}

bool Operation::poll() {
  if (ended_) return true;
  const py::gil_scoped_release released;
  return hvd_test(handle_, nullptr) != HVD_PENDING;
}

py::tuple Operation::output(size_t index) {
  hvd_tensor tensor{};
  hvd_error error = fresh_error();
  check(hvd_handle_output(handle_, index, &tensor, &error), error);
  py::tuple shape(tensor.ndim);
  for (int32_t d = 0; d < tensor.ndim; ++d) shape[static_cast<size_t>(d)] = tensor.shape[d];
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (tensor.device_type == HVD_CPU) return py::make_tuple(address, tensor.dtype, std::move(shape));
  return py::make_tuple(address, tensor.dtype, std::move(shape), tensor.device_id);
}

std::vector<int64_t> Operation::received_splits() {
  hvd_error error = fresh_error();
  size_t count = 0;
  check(hvd_handle_received_splits(handle_, nullptr, &count, &error), error);
  std::vector<int64_t> splits(std::max<size_t>(count, 1));
  count = splits.size();
  check(hvd_handle_received_splits(handle_, splits.data(), &count, &error), error);
  splits.resize(count);
  return splits;
}

int32_t Operation::last_joined_rank() {
  hvd_error error = fresh_error();
  int32_t rank = -1;
  check(hvd_handle_last_joined_rank(handle_, &rank, &error), error);
  return rank;
}

size_t Orphans::sweep() {
  // Dropping buffers can run Python code that adopts more orphans, so the list is taken out first.
  std::vector<Orphan> waiting = std::exchange(list_, {});
  for (Orphan& orphan : waiting) {
    if (hvd_test(orphan.handle, nullptr) == HVD_PENDING)
      list_.push_back(std::move(orphan));
    else
      hvd_handle_free(orphan.handle);
  }
  return list_.size();
}

Orphans& Orphans::of_process() {
  // Never destroyed: at process exit the objects it keeps belong to an interpreter that is gone.
  static auto* const orphans = new Orphans;
  return *orphans;
}

}  // namespace hvd::python
