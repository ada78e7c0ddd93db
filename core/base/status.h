// SPDX-License-Identifier: Apache-2.0
// Status and Result: how every layer reports failure. No exceptions are thrown by this project's code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace hvd {

// The numbers of hvd_status in hvd.h; capi/src asserts that they are equal.
enum class Code : int32_t {
  kOk = 0,
  kPending = 1,
  kInvalidArgument = -1,
  kInvalidState = -2,
  kNotFound = -3,
  kAlreadyExists = -4,
  kUnsupported = -5,
  kVersion = -6,
  kOutOfMemory = -7,
  kWouldDeadlock = -8,
  kMismatch = -20,
  kCancelled = -21,
  kTimeout = -22,
  kSetBroken = -40,
  kPeerLost = -60,
  kShutDown = -62,
  kIo = -63,
  kInternal = -80,
};

const char* code_name(Code code) noexcept;

// A code and, for errors, one line of text: who, what, numbers. Cheap to copy when ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status pending() { return Status(Code::kPending, {}); }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  int rank() const { return rank_; }            // the rank at fault, or -1
  int sys_errno() const { return sys_errno_; }  // 0 if none

  Status& with_rank(int rank) {
    rank_ = rank;
    return *this;
  }
  Status& with_errno(int number) {
    sys_errno_ = number;
    return *this;
  }

 private:
  Code code_ = Code::kOk;
  int rank_ = -1;
  int sys_errno_ = 0;
  std::string message_;
};

// "what: connection refused (111)" with the errno kept.
Status io_error(std::string_view what, int number);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace hvd

// Returns from the enclosing function if `expr`, a Status, is not ok.
#define HVD_TRY(expr)                                                                       \
  do {                                                                                      \
    if (::hvd::Status hvd_try_status = (expr); !hvd_try_status.ok()) return hvd_try_status; \
  } while (0)
