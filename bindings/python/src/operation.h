// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hvd/hvd.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::python {

// What an operation needs until it has ended.
struct Kept {
  pybind11::object context;
  pybind11::object buffers;
};

// The status of an operation that has ended, or HVD_PENDING at the deadline. The GIL is released
// meanwhile; Ctrl-C ends the wait, not the operation.
hvd_status wait_in_slices(hvd_handle* handle,
                          std::optional<std::chrono::steady_clock::time_point> deadline,
                          hvd_error* error);

// One hvd_handle, inside of a Python object. All members are used with the GIL held.
class Operation {
 public:
  // `label`: a str, what errors name.
  Operation(hvd_handle* handle, pybind11::object label, Kept kept, bool queued)
      : handle_(handle), label_(std::move(label)), kept_(std::move(kept)), queued_(queued) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  // An operation that has not ended is left to the orphans.
  ~Operation();

  // Returns false if the operation still runs after the time (None: no limit). Ctrl-C ends the
  // wait, not the operation.
  bool wait(pybind11::handle timeout_s);
  bool poll();
  size_t output_count() const { return hvd_handle_output_count(handle_); }
  pybind11::tuple output(size_t index);
  std::vector<int64_t> received_splits();
  int32_t last_joined_rank();
  uintptr_t key() const { return reinterpret_cast<uintptr_t>(handle_); }
  bool queued() const { return queued_; }

 private:
  hvd_handle* handle_;
  pybind11::object label_;
  Kept kept_;
  bool queued_;
  bool ended_ = false;
};

// Operations whose owner is gone before they ended: their buffers must stay, because other ranks
// need the operation. Guarded by the GIL.
class Orphans {
 public:
  void adopt(hvd_handle* handle, Kept kept) { list_.push_back({handle, std::move(kept)}); }
  // Lets go of those that have ended; the number of those that have not.
  size_t sweep();
  bool empty() const { return list_.empty(); }

  static Orphans& of_process();

 private:
  struct Orphan {
    hvd_handle* handle;
    Kept kept;
  };
  std::vector<Orphan> list_;
};

}  // namespace hvd::python
