// SPDX-License-Identifier: Apache-2.0
// An operation under way.
#pragma once

#include <hvd/hvd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "call.hpp"
#include "tensor.hpp"

namespace hvd::inline v1 {

namespace detail {

struct FreeHandle {
  void operator()(hvd_handle* handle) const { hvd_handle_free(handle); }
};

}  // namespace detail

// Owns the operation's handle. The tensors that were given to the operation must live until it has
// ended, so the destructor waits for that, except inside a callback, where the library refuses to
// wait; detach() is the way out for those who see to it otherwise. May outlive the context. Used by
// one thread at a time.
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  // Takes the reference over.
  explicit Pending(hvd_handle* handle) : handle_(handle) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept {
    finish();
    handle_ = std::move(other.handle_);
    return *this;
  }
  ~Pending() { finish(); }

  // Whether there is an operation.
  bool valid() const { return handle_ != nullptr; }
  hvd_handle* handle() const { return handle_.get(); }

  // Until it has ended; how it did.
  Expected<void> try_wait() {
    return detail::checked([this](hvd_error* error) { return hvd_wait(handle_.get(), -1, error); });
  }
  void wait() { try_wait().value(); }
  // At most so long; whether it has ended.
  Expected<bool> try_wait_for(std::chrono::nanoseconds limit) {
    hvd_status status = HVD_OK;
    const Expected<void> result = detail::checked([&](hvd_error* error) {
      return status = hvd_wait(handle_.get(), detail::nanoseconds(limit), error);
    });
    return result ? Expected<bool>(status != HVD_PENDING) : Expected<bool>(result.error());
  }
  bool wait_for(std::chrono::nanoseconds limit) { return try_wait_for(limit).value(); }
  bool ready() const { return hvd_test(handle_.get(), nullptr) != HVD_PENDING; }

  // Calls `then(Expected<void>)` once, when the operation has ended, on the context's callback
  // thread. A throwing one ends the program.
  Expected<void> try_then(std::function<void(Expected<void>)> then) {
    auto box = std::make_unique<Callback>(std::move(then));
    const auto call = [](void* data, hvd_handle* handle, hvd_status status) noexcept {
      const std::unique_ptr<Callback> own(static_cast<Callback*>(data));
      if (status >= HVD_OK) return (*own)({});
      (*own)(detail::checked([handle](hvd_error* error) { return hvd_test(handle, error); }));
    };
    Expected<void> result = detail::checked(
        [&](hvd_error* error) { return hvd_handle_then(handle_.get(), call, box.get(), error); });
    if (result) box.release();
    return result;
  }
  void then(std::function<void(Expected<void>)> then) { try_then(std::move(then)).value(); }

  // Of an operation that has succeeded: its results that the library has allocated, or the tensors
  // that were given. They belong to this object, so a temporary does not give them out.
  std::size_t result_count() const { return hvd_handle_output_count(handle_.get()); }
  template <Element T>
  Expected<Result<T>> try_result(std::size_t index = 0) & {
    hvd_tensor tensor{};
    if (auto got = detail::checked([&](hvd_error* error) {
          return hvd_handle_output(handle_.get(), index, &tensor, error);
        });
        !got) {
      return got.error();
    }
    if (tensor.dtype != dtype_of<T>) {
      return Error(HVD_ERR_INVALID_ARGUMENT, std::string("result is ") +
                                                 hvd_dtype_name(tensor.dtype) + ", asked for as " +
                                                 hvd_dtype_name(dtype_of<T>));
    }
    std::size_t count = 1;
    for (std::int32_t i = 0; i < tensor.ndim; ++i)
      count *= static_cast<std::size_t>(tensor.shape[i]);
    return Result<T>{{static_cast<const T*>(tensor.data), count},
                     {tensor.shape, static_cast<std::size_t>(tensor.ndim)}};
  }
  template <Element T>
  Result<T> result(std::size_t index = 0) & {
    return try_result<T>(index).value();
  }
  // Of alltoall: rows received from each rank of the set.
  Expected<std::vector<std::int64_t>> try_received_splits() {
    return detail::read_list<std::int64_t>(
        [this](std::int64_t* splits, std::size_t* count, hvd_error* error) {
          return hvd_handle_received_splits(handle_.get(), splits, count, error);
        });
  }
  std::vector<std::int64_t> received_splits() { return try_received_splits().value(); }
  // Of join: the rank that joined last.
  Expected<int> try_last_joined_rank() {
    std::int32_t rank = -1;
    auto got = detail::checked(
        [&](hvd_error* error) { return hvd_handle_last_joined_rank(handle_.get(), &rank, error); });
    return got ? Expected<int>(rank) : Expected<int>(got.error());
  }
  int last_joined_rank() { return try_last_joined_rank().value(); }

  // Gives the handle up without waiting: the operation goes on, and its tensors must live until
  // then all the same.
  void detach() { handle_.reset(); }

 private:
  using Callback = std::function<void(Expected<void>)>;

  void finish() {
    if (handle_) hvd_wait(handle_.get(), -1, nullptr);
    handle_.reset();
  }

  std::unique_ptr<hvd_handle, detail::FreeHandle> handle_;
};

}  // namespace hvd::inline v1
