// SPDX-License-Identifier: Apache-2.0
// The environment as a parameter, so that only the caller decides what is read, and when.
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace hvd {

// The value of a variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& variable)>;

inline Environment process_environment() {
  return [](const std::string& variable) -> std::optional<std::string> {
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

}  // namespace hvd
