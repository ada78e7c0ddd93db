// SPDX-License-Identifier: Apache-2.0
// The listening socket of one rank. Whoever connects is a stranger until its hello is complete and right; strangers are
// few, have little time, get no answer, and a wrong one is only closed and counted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "transport/events.h"
#include "transport/tcp_socket.h"

namespace hvd::transport {

inline constexpr uint32_t kDoorTimer = 1;  // index of its timer event; the watch's is 0

class TcpDoor {
 public:
  // Decides whether a hello with the right token is expected, and keeps the socket if so; false: refuse.
  using Admit = std::function<bool(const TcpHello&, Fd&)>;

  // `events` and `log` (may be null) outlive the door.
  static Result<TcpDoor> open(Events& events, const std::string& address, std::string token, const Logger* log);

  const std::string& address() const { return address_; }  // "127.0.0.1 4711"
  void on_event(const Event& event, const Admit& admit);
  void close();

 private:
  struct Stranger {
    Fd socket;
    Time since;
    size_t got = 0;
    TcpHello hello;
  };

  TcpDoor() = default;
  void accept_some();
  void listen_to(size_t slot, const Admit& admit);
  void refuse(size_t slot, const char* why);
  void dismiss(size_t slot);
  void expire();
  void set_timer(bool running);

  Events* events_ = nullptr;
  const Logger* log_ = nullptr;
  std::string token_;
  std::string address_;
  Fd listener_;
  Fd timer_;
  std::vector<Stranger> strangers_;  // slots; an empty socket is a free one
  size_t present_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace hvd::transport
