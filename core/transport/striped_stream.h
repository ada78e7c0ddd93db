// SPDX-License-Identifier: Apache-2.0
// One stream over several connections, for networks where one connection gets less than the link
// has.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transport/stream.h"

namespace hvd::transport {

// The bytes are dealt to the connections in turn, kStripe to each, so both ends know without
// headers where a byte travels. The ends list the connections in the same order. Bytes move in
// order: a connection that takes nothing holds up the others, which stay busy meanwhile with what
// the system keeps for them, many stripes each.
class StripedStream final : public Stream {
 public:
  static constexpr size_t kStripe = size_t{64} << 10;

  // At least one connection.
  explicit StripedStream(std::vector<std::unique_ptr<Stream>> connections)
      : connections_(std::move(connections)) {}

  size_t send_some(std::span<const iovec> pieces) override {
    return move(pieces, sent_, &Stream::send_some);
  }
  size_t receive_some(std::span<const iovec> pieces) override {
    return move(pieces, received_, &Stream::receive_some);
  }
  // Once one connection has failed nothing moves any more.
  bool failed() const override;

 private:
  size_t move(std::span<const iovec> pieces, size_t& position,
              size_t (Stream::*call)(std::span<const iovec>));

  const std::vector<std::unique_ptr<Stream>> connections_;
  size_t sent_ = 0;  // bytes since the beginning, which say whose turn it is
  size_t received_ = 0;
};

}  // namespace hvd::transport
