// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/device.h"

#include <arpa/inet.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <set>

namespace hvd::backend::gloo {
namespace {

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof text);
  }
  return text;
}

// The address from which this machine talks to others; nothing is sent to find out. Empty without
// such a route.
std::string address_of_route() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {};
  sockaddr_in far{};
  far.sin_family = AF_INET;
  far.sin_port = htons(9);
  // reserved for documentation: beyond every local network
  inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);
  sockaddr_in own{};
  socklen_t size = sizeof own;
  const bool found = ::connect(socket, reinterpret_cast<sockaddr*>(&far), sizeof far) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  ::close(socket);
  return found ? text_of(reinterpret_cast<sockaddr*>(&own)) : std::string();
}

struct Interfaces {
  std::set<std::string> names;
  std::string first_address;  // of the first interface that is up and no loopback
};

Interfaces interfaces() {
  Interfaces found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.names.insert(entry->ifa_name);
    if (family == AF_INET && (entry->ifa_flags & IFF_UP) != 0 &&
        (entry->ifa_flags & IFF_LOOPBACK) == 0 && found.first_address.empty()) {
      found.first_address = text_of(entry->ifa_addr);
    }
  }
  freeifaddrs(list);
  return found;
}

std::string choose_address(const plugin::Settings& settings) {
  if (settings.address[0] != '\0') return settings.address;
  if (std::string address = address_of_route(); !address.empty()) return address;
  const std::string first = interfaces().first_address;
  return first.empty() ? "127.0.0.1" : first;
}

}  // namespace

std::shared_ptr<::gloo::transport::Device> open_device(const plugin::Settings& settings,
                                                       std::string* problem) {
  ::gloo::transport::tcp::attr attributes;
  attributes.iface = settings.interface_name;
  if (attributes.iface.empty()) {
    attributes.hostname = choose_address(settings);
  } else if (const std::set<std::string> names = interfaces().names;
             names.count(attributes.iface) == 0) {
    *problem = "no interface " + attributes.iface + " with an address; there are";
    for (const std::string& name : names) *problem += " " + name;
    return nullptr;
  }
  static std::mutex mutex;
  static auto* devices = new std::map<std::string, std::weak_ptr<::gloo::transport::Device>>;
  const std::string key = attributes.iface + "/" + attributes.hostname;
  const std::lock_guard lock(mutex);
  std::shared_ptr<::gloo::transport::Device> device = (*devices)[key].lock();
  if (device) return device;
  try {
    device = ::gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    *problem = "no device at " +
               (attributes.iface.empty() ? attributes.hostname : attributes.iface) + ": " +
               error.what();
    return nullptr;
  }
  (*devices)[key] = device;
  return device;
}

}  // namespace hvd::backend::gloo
