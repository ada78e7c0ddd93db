// SPDX-License-Identifier: Apache-2.0
// A key-value store of the program's own, over which ranks find each other.
#pragma once

#include <hvd/hvd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "error.hpp"

namespace hvd::inline v1 {

// All ranks reach the same contents. Used while a context is opened, from the thread that opens it.
// An error's status is what the library learns of it.
class Store {
 public:
  using Bytes = std::vector<std::byte>;

  virtual ~Store() = default;
  // Stores a value, replacing an older one.
  virtual Expected<void> set(const std::string& key, std::span<const std::byte> value) = 0;
  // Waits until the key exists, at most so long (for ever without a limit), then HVD_ERR_TIMEOUT.
  virtual Expected<Bytes> get(const std::string& key,
                              std::optional<std::chrono::nanoseconds> limit) = 0;
  // Adds to a counter that starts at 0, atomically among all ranks; the sum.
  virtual Expected<std::int64_t> add(const std::string& key, std::int64_t delta) = 0;
  // Removing a key that is absent is no error.
  virtual Expected<void> remove(const std::string& key) = 0;
};

namespace detail {

// Nothing may be thrown through the library.
template <class Call>
hvd_status status_of(Call&& call) noexcept {
#if HVD_EXCEPTIONS
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return HVD_ERR_OUT_OF_MEMORY;
  } catch (...) {
    return HVD_ERR_INTERNAL;
  }
#else
  return call();
#endif
}

inline hvd_status store_set(void* self, const char* key, const void* value, std::size_t size) {
  return status_of([&] {
    const auto done =
        static_cast<Store*>(self)->set(key, {static_cast<const std::byte*>(value), size});
    return done ? HVD_OK : done.error().status();
  });
}

inline hvd_status store_get(void* self, const char* key, std::int64_t timeout_ns, void* value,
                            std::size_t* size) {
  return status_of([&] {
    std::optional<std::chrono::nanoseconds> limit;
    if (timeout_ns >= 0) limit = std::chrono::nanoseconds(timeout_ns);
    const auto got = static_cast<Store*>(self)->get(key, limit);
    if (!got) return got.error().status();
    const std::size_t capacity = *size;
    *size = got->size();
    if (got->size() > capacity) return HVD_ERR_INVALID_ARGUMENT;
    std::copy(got->begin(), got->end(), static_cast<std::byte*>(value));
    return HVD_OK;
  });
}

inline hvd_status store_add(void* self, const char* key, std::int64_t delta, std::int64_t* result) {
  return status_of([&] {
    const auto sum = static_cast<Store*>(self)->add(key, delta);
    if (!sum) return sum.error().status();
    *result = *sum;
    return HVD_OK;
  });
}

inline hvd_status store_remove(void* self, const char* key) {
  return status_of([&] {
    const auto done = static_cast<Store*>(self)->remove(key);
    return done ? HVD_OK : done.error().status();
  });
}

inline hvd_store raw_store(Store& store) {
  return {static_cast<std::uint32_t>(sizeof(hvd_store)),
          0,
          &store,
          store_set,
          store_get,
          store_add,
          store_remove};
}

}  // namespace detail

}  // namespace hvd::inline v1
