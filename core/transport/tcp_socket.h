// SPDX-License-Identifier: Apache-2.0
// TCP sockets as this layer uses them, and the first bytes on each: who connects to whom and for what.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "transport/board.h"
#include "transport/fd.h"

namespace hvd::transport {

inline constexpr int32_t kControlLane = -1;

// Sent by the connecting side before anything else. Both ends run on one machine, so byte order is no question yet.
struct TcpHello {
  uint64_t magic = 0x6876642d74637031;
  uint32_t protocol = kProtocolVersion;
  int32_t from = -1;             // rank
  int32_t to = -1;               // rank
  int32_t lane = kControlLane;   // what the connection is for
  std::array<char, 32> token{};  // of the job
  std::array<char, 24> library{};

  static TcpHello make(int from, int to, int lane, const std::string& token);
  // Compares the token in constant time.
  bool proves(const std::string& token) const;
};
static_assert(sizeof(TcpHello) == 80);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // A numeric loopback address. kUnsupported for others: connections between machines need encryption, which this version
  // does not have.
  static Result<SocketAddress> loopback(const std::string& address, uint16_t port);
  static bool is_numeric(const std::string& text);
};

// Both are non-blocking, close-on-exec, without Nagle's delay.
Result<Fd> listen_on(const SocketAddress& address);
Result<Fd> connect_to(const SocketAddress& address, Time deadline);
Result<Fd> accept_from(int listener);  // kPending if nobody waits
Result<uint16_t> port_of(int socket);

}  // namespace hvd::transport
