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
  // At least one byte, or kPending, kPeerLost (closed), kIo. What was refused with kPending is offered again from the same byte
  // on. `pieces` hold at least one byte.
  virtual Result<size_t> send(std::span<const iovec> pieces) = 0;
  virtual Result<size_t> receive(std::span<const iovec> pieces) = 0;
  // receive() has bytes to hand out, or an error, for which the descriptor is not readable.
  virtual bool buffered() const = 0;
  // The error that comes behind the bytes handed out last: receive() returns it next, and nothing will wake anybody for it.
  virtual Status failure() const = 0;
  virtual int fd() const = 0;
};

std::unique_ptr<Wire> plain_wire(Fd socket);
std::unique_ptr<Wire> tls_wire(std::unique_ptr<secure::TlsSocket> socket);

}  // namespace hvd::transport
