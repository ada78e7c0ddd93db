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

std::vector<std::byte> make_frame(FrameKind kind, std::span<const std::byte> body,
                                  std::span<const std::byte> behind) {
  const FrameHeader header{static_cast<uint32_t>(body.size() + behind.size()),
                           static_cast<uint32_t>(kind)};
  std::vector<std::byte> bytes(sizeof header);
  bytes.reserve(sizeof header + body.size() + behind.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes.insert(bytes.end(), body.begin(), body.end());
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  return bytes;
}

std::vector<std::byte> make_split_frame(std::span<const std::byte> head, size_t apart) {
  const auto count = static_cast<uint32_t>(apart);
  return make_frame(FrameKind::kSplit, head, std::as_bytes(std::span(&count, 1)));
}

std::span<std::byte> FrameReader::room() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (bytes_.size() > 4 * kReadBytes) bytes_ = {};
  }
  if (bytes_.size() - end_ < kReadBytes) {
    std::copy(bytes_.begin() + static_cast<ptrdiff_t>(begin_),
              bytes_.begin() + static_cast<ptrdiff_t>(end_), bytes_.begin());
    end_ -= begin_;
    begin_ = 0;
    if (bytes_.size() - end_ < kReadBytes)
      bytes_.resize(std::max(end_ + kReadBytes, bytes_.size() * 2));
  }
  return std::span(bytes_).subspan(end_);
}

std::optional<FrameReader::Message> FrameReader::next() {
  while (ending_ == Ending::kNone) {
    const size_t available = end_ - begin_;
    FrameHeader header;
    if (available < sizeof header) return std::nullopt;
    std::memcpy(&header, bytes_.data() + begin_, sizeof header);
    const auto kind = static_cast<FrameKind>(header.kind);
    const bool empty = kind == FrameKind::kGoodbye || kind == FrameKind::kAlive;
    const bool split = kind == FrameKind::kSplit && header.bytes >= sizeof(uint32_t);
    if ((kind != FrameKind::kMessage && !split && !empty) ||
        header.bytes > (empty ? 0 : kMaxMessage)) {
      ending_ = Ending::kMalformed;
      return std::nullopt;
    }
    if (available < sizeof header + header.bytes) return std::nullopt;
    const std::byte* body = bytes_.data() + begin_ + sizeof header;
    begin_ += sizeof header + header.bytes;
    if (kind == FrameKind::kMessage) return Message{std::span(body, header.bytes)};
    if (split) return split_message({body, header.bytes});
    if (kind == FrameKind::kGoodbye) ending_ = Ending::kGoodbye;
  }
  return std::nullopt;
}

std::optional<FrameReader::Message> FrameReader::split_message(std::span<const std::byte> body) {
  uint32_t apart = 0;
  const auto head = body.first(body.size() - sizeof apart);
  std::memcpy(&apart, body.data() + head.size(), sizeof apart);
  if (apart != 0 && apart <= kMaxMessage - head.size()) return Message{head, apart};
  ending_ = Ending::kMalformed;
  return std::nullopt;
}

}  // namespace hvd::transport
