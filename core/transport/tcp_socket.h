// SPDX-License-Identifier: Apache-2.0
// TCP sockets as this layer uses them: non-blocking, close-on-exec, without Nagle's delay.
#pragma once

#include "base/address.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace hvd::transport {

Result<Fd> listen_on(const SocketAddress& address);
// Begins; the socket becomes writable when it is connected or has failed.
Result<Fd> connect_to(const SocketAddress& address);
// kPending if no connection waits. `from`: the address of the caller.
Result<Fd> accept_from(int listener, SocketAddress& from);
Result<SocketAddress> address_of(int socket);

// Data that nobody acknowledges for this long ends the connection. For control connections only:
// the system counts a peer that does not read, and a data connection may wait for a slow one.
void set_patience(int socket, Duration patience);

}  // namespace hvd::transport
