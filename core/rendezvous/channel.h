// SPDX-License-Identifier: Apache-2.0
// One connection between a store's client and its server, plain or inside TLS. Nothing here blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/fd.h"
#include "base/status.h"
#include "secure/tls.h"

namespace hvd::rendezvous {

class Channel {
 public:
  Channel() = default;
  explicit Channel(Fd socket) : socket_(std::move(socket)) {}
  explicit Channel(std::unique_ptr<secure::TlsSocket> tls) : tls_(std::move(tls)) {}

  explicit operator bool() const { return fd() >= 0; }
  int fd() const { return tls_ ? tls_->fd() : socket_.get(); }
  // Null for a plain connection.
  const secure::TlsSocket* tls() const { return tls_.get(); }

  // Ok at once for a plain connection; otherwise as TlsSocket::handshake().
  Status handshake();
  // At least 1 byte, or kPending, kPeerLost (the other end has closed), kIo.
  Result<size_t> read(std::span<std::byte> into);
  Result<size_t> write(std::span<const std::byte> from);
  // POLLIN or POLLOUT, as the last call that returned kPending waits for.
  short wants() const { return wants_; }

  // The socket of a plain connection, to begin TLS with.
  Fd take_socket() { return std::move(socket_); }
  void close() { *this = Channel(); }

 private:
  Fd socket_;
  std::unique_ptr<secure::TlsSocket> tls_;
  short wants_ = 0;
};

}  // namespace hvd::rendezvous
