// SPDX-License-Identifier: Apache-2.0
// Numeric internet addresses, and those that this machine's interfaces have.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hvd {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // A numeric IPv4 or IPv6 address without brackets; nothing else, so nothing is looked up.
  static std::optional<SocketAddress> parse(std::string_view address, uint16_t port);
  // "10.0.0.1:7777" or "[fd00::1]:7777".
  static std::optional<SocketAddress> parse(std::string_view address_and_port);
  static SocketAddress of(const sockaddr* address, socklen_t size);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_loopback() const;
  bool is_any() const;       // 0.0.0.0 or ::, which stand for every address of a machine
  std::string host() const;  // "10.0.0.1", "fd00::1"
  std::string text() const;  // with the port, as parse() reads it
  bool operator==(const SocketAddress& other) const { return text() == other.text(); }
};

// An address of an interface that is up, with port 0.
struct InterfaceAddress {
  std::string interface;
  SocketAddress address;
};

// IPv4 before IPv6, in the system's order, without addresses that mean something on one link only
// (fe80::, 169.254.).
Result<std::vector<InterfaceAddress>> interface_addresses();

// The addresses of the interfaces in the comma-separated list `names`, or of all interfaces but
// loopback if the list is empty. kInvalidArgument, with the interfaces that exist, if a name is not
// the name of an interface with an address, or if no interface is left.
Result<std::vector<InterfaceAddress>> addresses_of(const std::string& names);

// The addresses that a name or numeric address stands for, IPv4 and IPv6, without duplicates. Asks
// the system's resolver, which no time limit of ours ends.
Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);

}  // namespace hvd
