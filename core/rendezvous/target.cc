// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/target.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace hvd::rendezvous {

Target Target::of(const SocketAddress& address) {
  Target target;
  target.storage = address.storage;
  target.size = address.size;
  target.text = address.text();
  return target;
}

Target Target::unix_name(const std::string& name) {
  Target target;
  // The URL's limit keeps it from being cut.
  std::string path = "hvd-store." + std::to_string(::geteuid()) + "." + name;
  auto* address = reinterpret_cast<sockaddr_un*>(&target.storage);
  path.resize(std::min(path.size(), sizeof address->sun_path - 1));
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, path.data(), path.size());
  target.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  target.text = "unix socket @" + path;
  return target;
}

void prepare_tcp(int socket) {
  const auto set = [socket](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);          // seconds of silence
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);          // then as many between questions
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);            // questions that may stay without an answer
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);  // the same for what was sent, in milliseconds
}

Status check_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return io_error("SO_PEERCRED", errno);
  if (peer.uid == ::geteuid()) return {};
  return {Code::kMismatch, "belongs to user " + std::to_string(peer.uid) +
                               ", this process to user " + std::to_string(::geteuid())};
}

}  // namespace hvd::rendezvous
