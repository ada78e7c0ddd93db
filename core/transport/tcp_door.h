// SPDX-License-Identifier: Apache-2.0
// The listening sockets of one rank. Whoever connects is a stranger until its greeting is complete and right; strangers are
// few, have little time, get no answer, and a wrong one is only closed and counted.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "transport/events.h"
#include "transport/greeting.h"
#include "transport/tcp_socket.h"

namespace hvd::transport {

class TcpDoor {
 public:
  // Keeps the wire of a proved call and returns true, or refuses it.
  using Admit = std::function<bool(const Call&, std::unique_ptr<Wire>&)>;

  // Listens on a free port of each address. `events`, `credentials` and `log` (may be null) outlive the door.
  static Result<std::unique_ptr<TcpDoor>> open(Events& events, const std::vector<SocketAddress>& addresses,
                                               const Credentials& credentials, Greeting::Expected expected, const Logger* log);

  const std::vector<SocketAddress>& addresses() const { return addresses_; }  // with their ports
  void on_event(const Event& event, const Admit& admit);
  void close();

 private:
  struct Stranger {
    std::unique_ptr<Greeting> greeting;  // null: the slot is free
    Time since;
    short wants = 0;
  };

  TcpDoor(Events& events, const Credentials& credentials, Greeting::Expected expected, const Logger* log);
  void accept_some(uint32_t listener);
  size_t free_slot();
  void listen_to(size_t slot, const Admit& admit);
  void refuse(size_t slot, const std::string& why);
  void dismiss(size_t slot);
  void expire();
  void set_timer(bool running);

  Events& events_;
  const Credentials& credentials_;
  const Greeting::Expected expected_;
  const Logger* log_;
  std::vector<SocketAddress> addresses_;
  std::vector<Fd> listeners_;
  Fd timer_;
  std::vector<Stranger> strangers_;
  size_t present_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace hvd::transport
