// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. A target aborts when a promise is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/status.h"

#define FUZZ_CHECK(condition)                                                      \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (0)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace hvd::fuzz {

inline std::string_view text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Errors are one printable line that fits the 1008 bytes of hvd_error.
inline void check_error(const Status& status, Code code) {
  FUZZ_CHECK(status.code() == code);
  FUZZ_CHECK(!status.message().empty() && status.message().size() < 1008);
  for (const char c : status.message()) FUZZ_CHECK(c >= ' ' && c <= '~');
}

}  // namespace hvd::fuzz
