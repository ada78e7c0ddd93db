// SPDX-License-Identifier: Apache-2.0
// Calls of hvd.h whose failures are values.
#pragma once

#include <hvd/hvd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "error.hpp"

namespace hvd::inline v1::detail {

// `call(error)` calls the library.
template <class Call>
Expected<void> checked(Call&& call) {
  hvd_error error;  // not HVD_ERROR_INIT, which would write a kilobyte before each call
  error.struct_size = sizeof error;
  error.status = HVD_ERR_INTERNAL;
  error.rank = -1;
  error.sys_errno = 0;
  error.message[0] = '\0';
  if (call(&error) >= HVD_OK) return {};
  return Error(error);
}

// Reads a list by the protocol of "capacity in, count out".
template <class T, class Read>
Expected<std::vector<T>> read_list(Read&& read) {
  std::vector<T> list;
  for (;;) {
    std::size_t count = list.size();
    const Expected<void> got = checked([&](hvd_error* error) {
      return read(list.empty() ? nullptr : list.data(), &count, error);
    });
    const bool fits = count <= list.size();
    if (!got && fits) return got.error();
    list.resize(count);
    // otherwise this was the question for the size, or there are more by now
    if (fits) return list;
  }
}

inline std::int64_t nanoseconds(std::chrono::nanoseconds duration) {
  return std::max<std::int64_t>(duration.count(), 0);
}

// For fields in which 0 means the default: no time at all is the shortest there is.
inline std::int64_t nanoseconds_not_default(std::chrono::nanoseconds duration) {
  return std::max<std::int64_t>(duration.count(), 1);
}

// The library takes what stands before a null character for the whole text.
inline bool has_null(std::string_view text) { return text.find('\0') != std::string_view::npos; }

inline Error null_character(const char* what, std::string_view text) {
  std::string message = what;
  message += " \"";
  for (const char character : text) {
    if (character == '\0')
      message += "\\x00";
    else
      message += character;
  }
  return Error(HVD_ERR_INVALID_ARGUMENT, message + "\" has a null character");
}

}  // namespace hvd::inline v1::detail
