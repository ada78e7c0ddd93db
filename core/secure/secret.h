// SPDX-License-Identifier: Apache-2.0
// The secret that the ranks of one job share: 256 random bits, and where they may come from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hvd::secure {

// The memory of a secret is locked, left out of core dumps, zero in forked children, and wiped at
// the end. Copies share that memory.
class Secret {
 public:
  static constexpr size_t kBytes = 32;
  using Key = std::array<uint8_t, kBytes>;

  static Result<Secret> random();
  // 64 hexadecimal digits.
  static Result<Secret> parse(std::string_view text);
  // A file with 64 hexadecimal digits that belongs to this user (or root) and that nobody else may
  // read or write.
  static Result<Secret> from_file(const std::string& path);
  // The same digits behind an inherited descriptor: from its beginning if it is a file, so that it
  // can be read again, else what a pipe holds until it ends. The descriptor stays open and is
  // closed on exec from now on.
  static Result<Secret> from_descriptor(int fd);

  // For channels that only ranks of the job can read. Wipe it after use.
  std::string text() const;

  // HKDF-SHA256 of the secret for one purpose.
  Result<Key> derive(std::string_view purpose) const;

 private:
  class Page;
  static Result<Secret> from_bytes(std::span<const uint8_t, kBytes> bytes);
  explicit Secret(std::shared_ptr<const Page> page) : page_(std::move(page)) {}

  std::shared_ptr<const Page> page_;
};

// Overwrites what a text held, in a way that the compiler keeps.
void wipe(std::string& text) noexcept;

}  // namespace hvd::secure
