// SPDX-License-Identifier: Apache-2.0
#include "transport/striped_stream.h"

#include <algorithm>

namespace hvd::transport {
namespace {

// The beginning of `pieces`, up to `most` bytes, in `taken`; returns how many bytes that is.
size_t take(std::span<const iovec> pieces, size_t skip, size_t most, std::vector<iovec>& taken) {
  taken.clear();
  size_t bytes = 0;
  for (const iovec& piece : pieces) {
    if (bytes == most) break;
    const size_t skipped = std::min(skip, piece.iov_len);
    skip -= skipped;
    const size_t length = std::min(piece.iov_len - skipped, most - bytes);
    if (length == 0) continue;
    taken.push_back({static_cast<std::byte*>(piece.iov_base) + skipped, length});
    bytes += length;
  }
  return bytes;
}

}  // namespace

bool StripedStream::failed() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection->failed(); });
}

size_t StripedStream::move(std::span<const iovec> pieces, size_t& position,
                           size_t (Stream::*call)(std::span<const iovec>)) {
  std::vector<iovec> stripe;
  size_t total = 0;
  while (!failed()) {
    Stream& connection = *connections_[position / kStripe % connections_.size()];
    const size_t wanted = take(pieces, total, kStripe - position % kStripe, stripe);
    if (wanted == 0) break;
    const size_t moved = (connection.*call)(stripe);
    position += moved;
    total += moved;
    if (moved < wanted) break;
  }
  return total;
}

}  // namespace hvd::transport
