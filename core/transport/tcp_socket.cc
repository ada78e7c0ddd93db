// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace hvd::transport {
namespace {

constexpr int kBacklog = 1024;

void tune(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // Pacing algorithms (bbr) halve the throughput of loopback. Refused where cubic is not built in;
  // no harm.
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

Result<Fd> new_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return io_error("socket", errno);
  tune(socket.get());
  return socket;
}

}  // namespace

Result<Fd> listen_on(const SocketAddress& address) {
  Result<Fd> socket = new_socket(address.family());
  if (!socket.ok()) return socket;
  const int fd = socket.value().get();
  if (::bind(fd, address.get(), address.size) != 0) return io_error("bind", errno);
  if (::listen(fd, kBacklog) != 0) return io_error("listen", errno);
  return socket;
}

Result<Fd> connect_to(const SocketAddress& address) {
  Result<Fd> socket = new_socket(address.family());
  if (!socket.ok()) return socket;
  if (::connect(socket.value().get(), address.get(), address.size) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    return io_error("connect", errno);
  }
  return socket;
}

Result<Fd> accept_from(int listener, SocketAddress& from) {
  while (true) {
    from.size = sizeof from.storage;
    Fd socket(::accept4(listener, reinterpret_cast<sockaddr*>(&from.storage), &from.size,
                        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      tune(socket.get());
      return socket;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return errno == EAGAIN ? Status::pending() : io_error("accept", errno);
  }
}

Result<SocketAddress> address_of(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return io_error("getsockname", errno);
  return SocketAddress::of(reinterpret_cast<sockaddr*>(&storage), size);
}

void set_patience(int socket, Duration patience) {
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
  const auto milliseconds = static_cast<unsigned>(std::clamp<int64_t>(limit, 0, 1 << 30));
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

}  // namespace hvd::transport
