// SPDX-License-Identifier: Apache-2.0
// The settings of a context, generated from options.def. Options are pure data without locks: code
// that changes an option while other threads read it has to lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/status.h"

namespace hvd {

namespace option_types {
using int_ = int64_t;
using double_ = double;
using bool_ = bool;
using text_ = std::string;
}  // namespace option_types

struct Options {
#define HVD_OPTION(name, type, default_value, allowed, when, help) \
  option_types::type##_ name = default_value;
#include "base/options.def"

  // Whether the contributions of each host are put together first.
  bool allreduce_by_hosts() const { return hierarchical_allreduce || torus_allreduce; }

  // Errors name the option, the value found and what is allowed, and change nothing; an unknown
  // name is kNotFound. Numbers are decimal; booleans are 1, true, yes, on, 0, false, no, off in any
  // case, or an integer (true if above 0).
  Status set(std::string_view name, std::string_view text);

  // The value as set() would read it.
  Result<std::string> get(std::string_view name) const;

  // Sets every option whose variable is present and not empty. The first bad one is the error,
  // naming the variable.
  Status load(const Environment& environment);
};

// The table; index from 0 until option_name returns null. The texts are static.
size_t option_count() noexcept;
const char* option_name(size_t index) noexcept;
const char* option_default(size_t index) noexcept;
const char* option_help(size_t index) noexcept;
bool changes_at_run_time(size_t index) noexcept;
std::optional<size_t> find_option(std::string_view name) noexcept;

// "HOROVOD_CYCLE_TIME" for "cycle_time".
std::string option_variable(std::string_view name);

}  // namespace hvd
