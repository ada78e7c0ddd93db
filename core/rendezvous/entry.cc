// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/entry.h"

#include <charconv>

namespace hvd::rendezvous {

Status check_key(std::string_view key) {
  if (key.empty() || key.size() > kMaxKey) {
    return {Code::kInvalidArgument, "store: key has " + std::to_string(key.size()) +
                                        " bytes; allowed: 1 to " + std::to_string(kMaxKey)};
  }
  if (key.find('\0') != std::string_view::npos)
    return {Code::kInvalidArgument, "store: key contains a NUL byte"};
  return {};
}

Status check_entry(std::string_view key, std::string_view value) {
  HVD_TRY(check_key(key));
  if (value.size() <= kMaxValue) return {};
  return {Code::kInvalidArgument, "store: value of key \"" + std::string(key) + "\" has " +
                                      std::to_string(value.size()) + " bytes; allowed: at most " +
                                      std::to_string(kMaxValue)};
}

Result<int64_t> counter_sum(std::string_view key, const std::optional<std::string>& value,
                            int64_t delta) {
  int64_t sum = 0;
  if (value) {
    const char* last = value->data() + value->size();
    const auto [end, error] = std::from_chars(value->data(), last, sum);
    if (error != std::errc{} || end != last) {
      return Status(Code::kInvalidArgument,
                    "store: key \"" + std::string(key) + "\" is no counter");
    }
  }
  const int64_t before = sum;
  if (__builtin_add_overflow(before, delta, &sum)) {
    return Status(Code::kInvalidArgument, "store: counter \"" + std::string(key) +
                                              "\" overflows: " + std::to_string(before) + " + " +
                                              std::to_string(delta));
  }
  return sum;
}

Status did_not_appear(std::string_view key, Duration waited) {
  return {Code::kTimeout,
          "key \"" + std::string(key) + "\" did not appear in " + seconds_text(waited) + " s"};
}

}  // namespace hvd::rendezvous
