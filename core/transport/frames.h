// SPDX-License-Identifier: Apache-2.0
// Messages cut out of a byte stream: `uint32 size, uint32 kind, body`, in the byte order of x86 and ARM. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hvd::transport {

enum class FrameKind : uint32_t {
  kMessage = 0,
  kGoodbye = 1,  // nothing follows
  kAlive = 2,    // says no more than that
};

// A whole frame, to be sent.
std::vector<std::byte> make_frame(FrameKind kind, std::span<const std::byte> body);

class FrameReader {
 public:
  enum class Ending { kNone, kGoodbye, kMalformed };

  // Where the next bytes of the stream go, and how many have come. Spans given out by next() end their life with room().
  std::span<std::byte> room();
  void filled(size_t bytes) { end_ += bytes; }

  // The next message that is complete; nothing after an ending.
  std::optional<std::span<const std::byte>> next();
  Ending ending() const { return ending_; }

 private:
  std::vector<std::byte> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  Ending ending_ = Ending::kNone;
};

}  // namespace hvd::transport
