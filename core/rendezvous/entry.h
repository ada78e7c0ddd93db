// SPDX-License-Identifier: Apache-2.0
// What every store agrees on: limits of keys and values, how counters are kept, and the words of
// the errors.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace hvd::rendezvous {

inline constexpr size_t kMaxKey = 200;
inline constexpr size_t kMaxValue = size_t{1} << 20;

// Keys are 1 to kMaxKey bytes, none of them NUL.
Status check_key(std::string_view key);
Status check_entry(std::string_view key, std::string_view value);

// A counter is an entry whose value is a decimal number; an absent one counts as 0.
Result<int64_t> counter_sum(std::string_view key, const std::optional<std::string>& value,
                            int64_t delta);

// `key "x" did not appear in 2.5 s`
Status did_not_appear(std::string_view key, Duration waited);

}  // namespace hvd::rendezvous
