// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_socket.h"

#include <arpa/inet.h>
#include <hvd/version.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/unix_record.h"

namespace hvd::transport {
namespace {

constexpr int kBacklog = 256;

template <size_t N>
void copy_text(const std::string& text, std::array<char, N>& to) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), to.size()));
}

void tune(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // Pacing algorithms (bbr) halve the throughput of loopback. Refused where cubic is not built in; no harm.
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

Result<Fd> new_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return io_error("socket", errno);
  tune(socket.get());
  return socket;
}

}  // namespace

TcpHello TcpHello::make(int from, int to, int lane, const std::string& token) {
  TcpHello hello;
  hello.from = from;
  hello.to = to;
  hello.lane = lane;
  copy_text(token, hello.token);
  copy_text(HVD_VERSION_STRING, hello.library);
  return hello;
}

bool TcpHello::proves(const std::string& expected) const {
  std::array<char, 32> wanted{};
  copy_text(expected, wanted);
  unsigned difference = 0;
  for (size_t i = 0; i < wanted.size(); ++i) difference |= static_cast<unsigned char>(token[i] ^ wanted[i]);
  return difference == 0;
}

bool SocketAddress::is_numeric(const std::string& text) {
  in6_addr any{};
  return ::inet_pton(AF_INET, text.c_str(), &any) == 1 || ::inet_pton(AF_INET6, text.c_str(), &any) == 1;
}

Result<SocketAddress> SocketAddress::loopback(const std::string& text, uint16_t port) {
  SocketAddress address;
  bool local = false;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof *v4;
    local = (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  } else if (address.storage = {}; ::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof *v6;
    local = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  } else {
    return Status(Code::kInvalidArgument, "init: bind address \"" + text + "\" is not a numeric IP address");
  }
  if (!local) {
    return Status(Code::kUnsupported, "init: bind address " + text + " is not a loopback address; this version connects " +
                                          "ranks of one machine only, because connections are not encrypted yet");
  }
  return address;
}

Result<Fd> listen_on(const SocketAddress& address) {
  Result<Fd> socket = new_socket(address.storage.ss_family);
  if (!socket.ok()) return socket;
  const int fd = socket.value().get();
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) return io_error("bind", errno);
  if (::listen(fd, kBacklog) != 0) return io_error("listen", errno);
  return socket;
}

Result<Fd> connect_to(const SocketAddress& address, Time deadline) {
  Result<Fd> socket = new_socket(address.storage.ss_family);
  if (!socket.ok()) return socket;
  const int fd = socket.value().get();
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0) return socket;
  if (errno != EINPROGRESS && errno != EINTR) return io_error("connect", errno);
  HVD_TRY(wait_for(fd, POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return io_error("connect", error);
  return socket;
}

Result<Fd> accept_from(int listener) {
  while (true) {
    Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      tune(socket.get());
      return socket;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return errno == EAGAIN ? Status::pending() : io_error("accept", errno);
  }
}

Result<uint16_t> port_of(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return io_error("getsockname", errno);
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

}  // namespace hvd::transport
