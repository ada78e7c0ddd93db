// SPDX-License-Identifier: Apache-2.0
// Status and Result: how every layer reports failure. No exceptions are thrown by this project's
// code.
#pragma once

#include <cstdint>
#include <memory>
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
  kDismissed = -64,
  kInternal = -80,
};

const char* code_name(Code code) noexcept;

// A code and, for errors, one line of text with the rank, the fact and the numbers. A Status costs
// two words and no allocation unless there is a text, because every step of every operation returns
// one.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code) { detail().message = std::move(message); }
  Status(const Status& other) : code_(other.code_) {
    if (other.detail_) detail_ = std::make_unique<Detail>(*other.detail_);
  }
  Status(Status&&) noexcept = default;
  Status& operator=(const Status& other) { return *this = Status(other); }
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;
  static Status pending() {
    Status status;
    status.code_ = Code::kPending;
    return status;
  }
  // An error for when there is no memory, which needs no memory itself.
  static Status out_of_memory(Code code = Code::kOutOfMemory) noexcept {
    Status status;
    status.code_ = code;
    return status;
  }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const;
  int rank() const { return detail_ ? detail_->rank : -1; }           // the rank at fault, or -1
  int sys_errno() const { return detail_ ? detail_->sys_errno : 0; }  // 0 if none

  Status& with_rank(int rank) {
    detail().rank = rank;
    return *this;
  }
  Status& with_errno(int number) {
    detail().sys_errno = number;
    return *this;
  }

 private:
  struct Detail {
    std::string message;
    int rank = -1;
    int sys_errno = 0;
  };
  Detail& detail() {
    if (!detail_) detail_ = std::make_unique<Detail>();
    return *detail_;
  }

  Code code_ = Code::kOk;
  std::unique_ptr<Detail> detail_;
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
