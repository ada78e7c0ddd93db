// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>

namespace hvd {
namespace {

const sockaddr_in& v4(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& v6(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

bool is_link_local(const SocketAddress& address) {
  if (address.family() == AF_INET6) return IN6_IS_ADDR_LINKLOCAL(&v6(address).sin6_addr);
  return (ntohl(v4(address).sin_addr.s_addr) >> 16) == 0xa9fe;
}

std::string list_of(const std::vector<InterfaceAddress>& all) {
  std::string text;
  for (const InterfaceAddress& entry : all) {
    text += (text.empty() ? "" : ", ") + entry.interface + " (" + entry.address.host() + ")";
  }
  return text.empty() ? "none" : text;
}

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> list;
  size_t begin = 0;
  while (begin <= names.size()) {
    const size_t comma = std::min(names.find(',', begin), names.size());
    if (comma > begin) list.push_back(names.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return list;
}

}  // namespace

std::optional<SocketAddress> SocketAddress::parse(std::string_view text, uint16_t port) {
  const std::string address(text);
  SocketAddress parsed;
  auto* four = reinterpret_cast<sockaddr_in*>(&parsed.storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&parsed.storage);
  if (::inet_pton(AF_INET, address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    parsed.size = sizeof *four;
  } else if (::inet_pton(AF_INET6, address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    parsed.size = sizeof *six;
  } else {
    return std::nullopt;
  }
  parsed.set_port(port);
  return parsed;
}

std::optional<SocketAddress> SocketAddress::parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::optional<SocketAddress> parsed = parse(host, port);
  if (parsed && (parsed->family() == AF_INET6) != bracketed) return std::nullopt;
  return parsed;
}

SocketAddress SocketAddress::of(const sockaddr* address, socklen_t size) {
  SocketAddress copy;
  copy.size = std::min<socklen_t>(size, sizeof copy.storage);
  std::memcpy(&copy.storage, address, copy.size);
  return copy;
}

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port);
}

void SocketAddress::set_port(uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET6) {
    const in6_addr& address = v6(*this).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&address) ||
           (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
  }
  return (ntohl(v4(*this).sin_addr.s_addr) >> 24) == 127;
}

bool SocketAddress::is_any() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&v6(*this).sin6_addr);
  return v4(*this).sin_addr.s_addr == 0;
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  const void* bytes =
      family() == AF_INET6 ? static_cast<const void*>(&v6(*this).sin6_addr) : &v4(*this).sin_addr;
  return ::inet_ntop(family(), bytes, buffer.data(), buffer.size()) != nullptr ? buffer.data()
                                                                               : "?";
}

std::string SocketAddress::text() const {
  return (family() == AF_INET6 ? "[" + host() + "]" : host()) + ":" + std::to_string(port());
}

Result<std::vector<InterfaceAddress>> interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return io_error("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> hold(list, ::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family ||
          (entry->ifa_flags & IFF_UP) == 0)
        continue;
      const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      const SocketAddress address = SocketAddress::of(entry->ifa_addr, size);
      if (!is_link_local(address)) all.push_back({entry->ifa_name, address});
    }
  }
  return all;
}

Result<std::vector<InterfaceAddress>> addresses_of(const std::string& names) {
  const Result<std::vector<InterfaceAddress>> all = interface_addresses();
  if (!all.ok()) return all.status();
  const std::vector<std::string> wanted = split(names);
  for (const std::string& name : wanted) {
    if (std::none_of(all.value().begin(), all.value().end(),
                     [&](const auto& entry) { return entry.interface == name; })) {
      return Status(Code::kInvalidArgument, "network interface \"" + name +
                                                "\" is not there or has no address; there are " +
                                                list_of(all.value()));
    }
  }
  std::vector<InterfaceAddress> chosen;
  for (const InterfaceAddress& entry : all.value()) {
    const bool named = std::find(wanted.begin(), wanted.end(), entry.interface) != wanted.end();
    if (wanted.empty() ? !entry.address.is_loopback() : named) chosen.push_back(entry);
  }
  if (!chosen.empty()) return chosen;
  return Status(
      Code::kInvalidArgument,
      "this machine has no network address besides loopback; there are " + list_of(all.value()));
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port) {
  if (const std::optional<SocketAddress> numeric = SocketAddress::parse(host, port))
    return std::vector{*numeric};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    const int number = error == EAI_SYSTEM ? errno : 0;
    return Status(Code::kIo, "host \"" + host + "\": " +
                                 (number != 0 ? std::strerror(number) : ::gai_strerror(error)))
        .with_errno(number);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> hold(list, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress address =
        SocketAddress::of(entry->ai_addr, static_cast<socklen_t>(entry->ai_addrlen));
    address.set_port(port);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end())
      addresses.push_back(address);
  }
  return addresses;
}

}  // namespace hvd
