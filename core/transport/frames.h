// SPDX-License-Identifier: Apache-2.0
// Messages cut out of a byte stream: `uint32 size, uint32 kind, body`, in the byte order of x86 and
// ARM. Pure.
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
  // a message whose last bytes come on another connection: the others, then their number as uint32
  kSplit = 3,
};

// A whole frame, to be sent.
std::vector<std::byte> make_frame(FrameKind kind, std::span<const std::byte> body,
                                  std::span<const std::byte> behind = {});
// A frame for a message of which `apart` bytes come elsewhere.
std::vector<std::byte> make_split_frame(std::span<const std::byte> head, size_t apart);

class FrameReader {
 public:
  enum class Ending { kNone, kGoodbye, kMalformed };
  struct Message {
    std::span<const std::byte> bytes;
    size_t apart = 0;  // bytes that belong behind them and come elsewhere
  };

  // Where the next bytes of the stream go, and how many have come. Spans given out by next() end
  // their life with room().
  std::span<std::byte> room();
  void filled(size_t bytes) { end_ += bytes; }

  // The next message that is complete; nothing after an ending.
  std::optional<Message> next();
  Ending ending() const { return ending_; }

 private:
  std::optional<Message> split_message(std::span<const std::byte> body);

  std::vector<std::byte> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  Ending ending_ = Ending::kNone;
};

}  // namespace hvd::transport
