// SPDX-License-Identifier: Apache-2.0
// Mutually authenticated, encrypted connections: TLS 1.3 with a key that both ends derive from the
// job's secret (external PSK with ephemeral Diffie-Hellman; no certificates, no tickets, no early
// data). Nothing here blocks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/status.h"
#include "secure/identity.h"
#include "secure/seal.h"
#include "secure/secret.h"

namespace hvd::secure {

// How connections between ranks are protected.
enum class Level {
  kNone,  // not at all: everybody who reaches a port can speak
  // control messages inside TLS; data connections are authenticated by TLS and plain afterwards
  kAuth,
  kEncrypt,  // everything inside TLS
};
const char* level_name(Level level);

// A connection, used by one thread at a time.
class TlsSocket {
 public:
  // Most bytes an unauthenticated peer may send.
  static constexpr size_t kMostBeforeAuthentication = 16 << 10;

  virtual ~TlsSocket() = default;
  // Takes the next step. Ok means that both ends have proved that they know the key. kPending: call
  // again when the socket is ready for wants(). kPeerLost: the other end has closed the connection,
  // as it also does if it does not know the key; kMismatch: the other end does not know the key or
  // is not expected; kIo. After an error the socket is of no use.
  virtual Status handshake() = 0;
  // POLLIN or POLLOUT, after kPending.
  virtual short wants() const = 0;
  // At the connecting end: the own identity. At the accepting end: the identity of the other end,
  // once the handshake is over. Before that, once the first message was right, the identity that
  // the other end (or a recording of it) claims; until then an identity without a job.
  virtual const Identity& identity() const = 0;

  // After the handshake. At least 1 byte, or kPending, kPeerLost (the other end has closed), kIo. A
  // write that was pending is repeated with the same bytes or more.
  virtual Result<size_t> read(std::span<std::byte> into) = 0;
  virtual Result<size_t> write(std::span<const std::byte> from) = 0;
  // Whether read() has bytes already, for which the descriptor does not become readable. They may
  // be too few for read() to hand any out.
  virtual bool buffered() const = 0;
  // The last look at the socket took all that was there.
  virtual bool drained() const = 0;
  // After the handshake, for a connection that stays inside TLS to its end: read() may take more
  // from the system than it hands out, which saves calls of the system.
  virtual void read_ahead() = 0;

  // After the handshake: checksums for what travels in plain after release(), with keys that only
  // the two ends of this connection know.
  virtual Result<Seals> make_seals() const = 0;

  virtual int fd() const = 0;
  // Ends TLS on this end and hands the plain socket over; sends nothing. Only when nothing is
  // buffered() and without read_ahead(). The other end must know that plain bytes follow.
  virtual Fd release() = 0;
};

// Makes connections with one secret. Thread safe.
class Keyring {
 public:
  // Whether a client that claims this identity may try to prove it. Runs before any cryptography.
  using Admit = std::function<bool(const Identity&)>;

  static Result<std::shared_ptr<Keyring>> make(Secret secret);
  virtual ~Keyring() = default;

  // `socket` is connected, or being connected, and not blocking.
  virtual Result<std::unique_ptr<TlsSocket>> connect(Fd socket, const Identity& identity) const = 0;
  virtual Result<std::unique_ptr<TlsSocket>> accept(Fd socket, Admit admit) const = 0;
  virtual const Secret& secret() const = 0;
};

}  // namespace hvd::secure
