// SPDX-License-Identifier: Apache-2.0
// A connected socket that carries bytes, plain or inside TLS. Nothing here blocks.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>

#include "base/fd.h"
#include "base/status.h"
#include "secure/tls.h"

namespace hvd::transport {

// Used by one thread at a time.
class Wire {
 public:
  virtual ~Wire() = default;
  // At least one byte, or kPending, kPeerLost (closed), kIo. Bytes that were refused with kPending
  // are offered again from the same byte on. `pieces` hold at least one byte.
  virtual Result<size_t> send(std::span<const iovec> pieces) = 0;
  virtual Result<size_t> receive(std::span<const iovec> pieces) = 0;
  // receive() has bytes to hand out, or an error, for which the descriptor is not readable.
  virtual bool buffered() const = 0;
  // The error that comes behind the bytes handed out last: receive() returns it next, and nothing
  // will wake anybody for it.
  virtual Status failure() const = 0;
  virtual int fd() const = 0;
};

// Fills the pieces by `read(span)`, which gives at least one byte or says why not. An error that
// comes behind bytes is kept in `failure`, so that they are delivered before it.
template <class Read>
Result<size_t> fill_pieces(std::span<const iovec> pieces, Status& failure, Read&& read) {
  if (!failure.ok()) return failure;
  size_t total = 0;
  for (const iovec& piece : pieces) {
    auto* into = static_cast<std::byte*>(piece.iov_base);
    for (size_t at = 0; at < piece.iov_len;) {
      const Result<size_t> got = read(std::span(into + at, piece.iov_len - at));
      if (!got.ok()) {
        if (total == 0) return got;
        if (got.status().code() != Code::kPending) failure = got.status();
        return total;
      }
      at += got.value();
      total += got.value();
    }
  }
  return total;
}

std::unique_ptr<Wire> plain_wire(Fd socket);
std::unique_ptr<Wire> tls_wire(std::unique_ptr<secure::TlsSocket> socket);

}  // namespace hvd::transport
