// SPDX-License-Identifier: Apache-2.0
#include "transport/frames.h"

#include <algorithm>
#include <cstring>

#include "transport/ring.h"

namespace hvd::transport {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

struct FrameHeader {
  uint32_t bytes;
  uint32_t kind;
};

}  // namespace

std::vector<std::byte> make_frame(FrameKind kind, std::span<const std::byte> body) {
  const FrameHeader header{static_cast<uint32_t>(body.size()), static_cast<uint32_t>(kind)};
  std::vector<std::byte> bytes(sizeof header + body.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(bytes.data() + sizeof header, body.data(), body.size());
  return bytes;
}

std::span<std::byte> FrameReader::room() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (bytes_.size() > 4 * kReadBytes) bytes_ = {};
  }
  if (bytes_.size() - end_ < kReadBytes) {
    std::copy(bytes_.begin() + static_cast<ptrdiff_t>(begin_), bytes_.begin() + static_cast<ptrdiff_t>(end_), bytes_.begin());
    end_ -= begin_;
    begin_ = 0;
    if (bytes_.size() - end_ < kReadBytes) bytes_.resize(std::max(end_ + kReadBytes, bytes_.size() * 2));
  }
  return std::span(bytes_).subspan(end_);
}

std::optional<std::span<const std::byte>> FrameReader::next() {
  while (ending_ == Ending::kNone) {
    const size_t available = end_ - begin_;
    FrameHeader header;
    if (available < sizeof header) return std::nullopt;
    std::memcpy(&header, bytes_.data() + begin_, sizeof header);
    const auto kind = static_cast<FrameKind>(header.kind);
    const bool empty = kind == FrameKind::kGoodbye || kind == FrameKind::kAlive;
    if ((kind != FrameKind::kMessage && !empty) || header.bytes > (empty ? 0 : kMaxMessage)) {
      ending_ = Ending::kMalformed;
      return std::nullopt;
    }
    if (available < sizeof header + header.bytes) return std::nullopt;
    const std::byte* body = bytes_.data() + begin_ + sizeof header;
    begin_ += sizeof header + header.bytes;
    if (kind == FrameKind::kMessage) return std::span(body, header.bytes);
    if (kind == FrameKind::kGoodbye) ending_ = Ending::kGoodbye;
  }
  return std::nullopt;
}

}  // namespace hvd::transport
