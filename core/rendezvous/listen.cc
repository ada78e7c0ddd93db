// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/listen.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>

#include "rendezvous/target.h"

namespace hvd::rendezvous {
namespace {

// Connections that the system completes before the server takes them.
constexpr int kBacklog = 1024;

void add(std::vector<SocketAddress>& list, const SocketAddress& address) {
  if (std::find(list.begin(), list.end(), address) == list.end()) list.push_back(address);
}

}  // namespace

Result<Listener> listen_at(const SocketAddress& address) {
  Listener listener;
  listener.socket = Fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const std::string where = " " + address.text();
  if (!listener.socket) return io_error("socket for" + where, errno);
  // Lets a job start while connections of an earlier one on the port are still being forgotten, and
  // while a launcher holds the port bound without listening.
  const int on = 1;
  ::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6)
    ::setsockopt(listener.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(listener.socket.get(), address.get(), address.size) != 0)
    return io_error("bind" + where, errno);
  if (::listen(listener.socket.get(), kBacklog) != 0) return io_error("listen" + where, errno);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return io_error("getsockname" + where, errno);
  }
  listener.address = SocketAddress::of(reinterpret_cast<const sockaddr*>(&bound), size);
  return listener;
}

Result<Fd> listen_at_unix(const std::string& name) {
  const Target target = Target::unix_name(name);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return io_error("socket for " + target.text, errno);
  if (::bind(socket.get(), target.get(), target.size) != 0)
    return io_error("bind " + target.text, errno);
  if (::listen(socket.get(), kBacklog) != 0) return io_error("listen " + target.text, errno);
  return socket;
}

Result<std::vector<SocketAddress>> addresses_of_candidate(const Candidate& candidate) {
  return resolve(candidate.host == "localhost" ? "127.0.0.1" : candidate.host, candidate.port);
}

Result<std::vector<SocketAddress>> places_to_listen(const TcpUrl& url, bool widely,
                                                    const std::string& interfaces) {
  std::vector<SocketAddress> places;
  for (const Candidate& candidate : url.candidates) {
    const Result<std::vector<SocketAddress>> meant = addresses_of_candidate(candidate);
    if (!meant.ok()) return meant.status();
    for (const SocketAddress& address : meant.value()) add(places, address);
    const bool name = candidate.host != "localhost" && !SocketAddress::parse(candidate.host, 0);
    const bool loops = std::all_of(meant.value().begin(), meant.value().end(),
                                   [](const auto& a) { return a.is_loopback(); });
    if (!name || !loops || !widely) continue;
    const Result<std::vector<InterfaceAddress>> own = addresses_of(interfaces);
    // A machine with nothing but loopback has no ranks elsewhere.
    if (!own.ok() && !interfaces.empty()) return own.status();
    if (!own.ok()) continue;
    for (InterfaceAddress entry : own.value()) {
      entry.address.set_port(candidate.port);
      add(places, entry.address);
    }
  }
  return places;
}

Result<std::vector<Listener>> listen_at_own(const std::vector<SocketAddress>& places) {
  std::vector<Listener> listeners;
  std::string foreign;
  for (const SocketAddress& place : places) {
    Result<Listener> listener = listen_at(place);
    if (listener.ok()) {
      listeners.push_back(std::move(listener).value());
    } else if (const int number = listener.status().sys_errno();
               number == EADDRNOTAVAIL || number == EAFNOSUPPORT) {
      foreign += (foreign.empty() ? "" : ", ") + place.host();
    } else {
      return listener.status();
    }
  }
  if (!listeners.empty()) return listeners;
  return Status(Code::kNotFound,
                "this machine, which is to serve the store, has no address of " + foreign);
}

}  // namespace hvd::rendezvous
