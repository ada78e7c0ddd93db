// SPDX-License-Identifier: Apache-2.0
// Keyed checksums over the records that one direction of a connection carries. Without the key
// nobody can alter, reorder, repeat or leave out a record unnoticed.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "base/status.h"
#include "secure/secret.h"

namespace hvd::secure {

// Each end makes a Seal with the same key, and the two count alike. Used by one thread at a time.
class Seal {
 public:
  static constexpr size_t kBytes = 16;
  using Tag = std::array<std::byte, kBytes>;

  // `key` is for this direction of this connection only: the tags of two records under one key and
  // count would give it away.
  static Result<std::unique_ptr<Seal>> make(const Secret::Key& key);
  virtual ~Seal() = default;
  // The tag of the next record, whose bytes are those of the pieces in order.
  virtual Result<Tag> next(std::span<const iovec> pieces) = 0;
};

// In a time that says nothing about where they differ.
bool same_tag(const Seal::Tag& one, const Seal::Tag& other);

struct Seals {
  std::unique_ptr<Seal> sending, receiving;
};

}  // namespace hvd::secure
