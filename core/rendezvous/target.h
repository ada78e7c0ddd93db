// SPDX-License-Identifier: Apache-2.0
// An address to connect to, of any family.
#pragma once

#include <sys/socket.h>

#include <string>

#include "base/address.h"

namespace hvd::rendezvous {

struct Target {
  sockaddr_storage storage{};
  socklen_t size = 0;
  std::string text;  // for messages: "10.0.0.1:7777", "unix socket @hvd-store.1000.name"

  static Target of(const SocketAddress& address);
  // In the abstract namespace: no file, and it goes away with whoever listens. The user's number is
  // a part of it.
  static Target unix_name(const std::string& name);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_unix() const { return storage.ss_family == AF_UNIX; }
};

// For a TCP connection of either end: small messages go at once, and an end whose machine is gone
// is noticed within half a minute although nothing is sent.
void prepare_tcp(int socket);

// Whether the other end of a Unix socket is a process of this user. Text of the refusal otherwise.
Status check_user(int socket);

}  // namespace hvd::rendezvous
