// SPDX-License-Identifier: Apache-2.0
// What went wrong, as a value and as an exception.
#pragma once

#include <hvd/hvd.h>

#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#if defined(__cpp_exceptions) && !defined(HVD_NO_EXCEPTIONS)
#define HVD_EXCEPTIONS 1
#include <stdexcept>
#else
#define HVD_EXCEPTIONS 0
#include <cstdlib>
#endif

namespace hvd::inline v1 {

// A failed call, or how an operation ended. Numbers and groups are those of section 2 of hvd.h.
class Error {
 public:
  Error() = default;
  Error(hvd_status status, std::string message, int rank = -1, int sys_errno = 0)
      : status_(status), rank_(rank), sys_errno_(sys_errno), message_(std::move(message)) {}
  explicit Error(const hvd_error& error)
      : Error(error.status, error.message, error.rank, error.sys_errno) {}

  hvd_status status() const { return status_; }
  const char* name() const { return hvd_status_name(status_); }  // "HVD_ERR_MISMATCH"
  const std::string& message() const { return message_; }
  int rank() const { return rank_; }  // the rank at fault, or -1
  int sys_errno() const { return sys_errno_; }

  // The call was wrong; nothing happened.
  bool is_usage() const { return status_ <= -1 && status_ > -20; }
  // This operation failed on every rank that submitted it; its process set goes on.
  bool is_operation() const { return status_ <= -20 && status_ > -40; }
  // The process set is broken; others go on.
  bool is_set() const { return status_ <= -40 && status_ > -60; }
  // The whole context is broken; a new one may be opened.
  bool is_context() const { return status_ <= -60 && status_ > -80; }

 private:
  hvd_status status_ = HVD_ERR_INTERNAL;
  int rank_ = -1;
  int sys_errno_ = 0;
  std::string message_;
};

#if HVD_EXCEPTIONS
// Thrown by the functions without try_. what() is the message. It is an Error too, so that `catch
// (const hvd::Error&)` catches.
class Exception : public std::runtime_error, public Error {
 public:
  explicit Exception(Error error) : std::runtime_error(error.message()), Error(std::move(error)) {}
  const Error& error() const { return *this; }
};
struct UsageError : Exception {  // Error::is_usage()
  using Exception::Exception;
};
struct MismatchError : Exception {
  using Exception::Exception;
};
struct CancelledError : Exception {
  using Exception::Exception;
};
struct TimeoutError : Exception {
  using Exception::Exception;
};
struct SetBrokenError : Exception {
  using Exception::Exception;
};
struct PeerLostError : Exception {
  using Exception::Exception;
};
struct ShutDownError : Exception {
  using Exception::Exception;
};
#endif

namespace detail {

[[noreturn]] inline void raise([[maybe_unused]] Error error) {
#if HVD_EXCEPTIONS
  if (error.status() == HVD_ERR_OUT_OF_MEMORY) throw std::bad_alloc();
  if (error.status() == HVD_ERR_MISMATCH) throw MismatchError(std::move(error));
  if (error.status() == HVD_ERR_CANCELLED) throw CancelledError(std::move(error));
  if (error.status() == HVD_ERR_TIMEOUT) throw TimeoutError(std::move(error));
  if (error.status() == HVD_ERR_PEER_LOST) throw PeerLostError(std::move(error));
  if (error.status() == HVD_ERR_SHUT_DOWN) throw ShutDownError(std::move(error));
  if (error.is_set()) throw SetBrokenError(std::move(error));
  if (error.is_usage()) throw UsageError(std::move(error));
  throw Exception(std::move(error));
#else
  std::abort();  // value() of a result that is an error, in a program without exceptions
#endif
}

}  // namespace detail

// Either a value or an Error: what the try_ functions return. Of std::expected's members those that
// are needed.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  // Throws the error if there is no value.
  T& value() & {
    check();
    return *std::get_if<0>(&content_);
  }
  const T& value() const& {
    check();
    return *std::get_if<0>(&content_);
  }
  T&& value() && {
    check();
    return std::move(*std::get_if<0>(&content_));
  }
  // Only without a value.
  const Error& error() const { return *std::get_if<1>(&content_); }
  // Only with a value.
  T& operator*() { return *std::get_if<0>(&content_); }
  const T& operator*() const { return *std::get_if<0>(&content_); }
  T* operator->() { return std::get_if<0>(&content_); }
  const T* operator->() const { return std::get_if<0>(&content_); }

 private:
  void check() const {
    if (!has_value()) detail::raise(error());
  }
  std::variant<T, Error> content_;
};

template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  void value() const {
    if (error_) detail::raise(*error_);
  }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace hvd::inline v1
