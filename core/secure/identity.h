// SPDX-License-Identifier: Apache-2.0
// The purpose of a connection. An Identity names the key, and the key is made from it, so a key for
// one connection opens no other one, not even the same connection in the opposite direction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hvd::secure {

inline constexpr int32_t kUnranked = -1;  // a client that does not know its rank yet
inline constexpr size_t kLongestIdentity = 250;

struct Identity {
  std::string job;    // 1 to 100 letters, digits, dots, underscores, hyphens
  int64_t epoch = 0;  // numbers the memberships, from 0
  int32_t client = kUnranked;
  int32_t server = 0;
  std::string purpose;  // 1 to 40 of the same characters: "store", "control", "lane.3.0"

  // "hvd1 job epoch client server purpose"
  std::string text() const;
  // Nothing for a text that no identity has: text() of the result is the same text.
  static std::optional<Identity> parse(std::string_view text);
};

}  // namespace hvd::secure
