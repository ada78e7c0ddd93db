// SPDX-License-Identifier: Apache-2.0
// The listening sockets of one rank. A process that connects is a stranger until its greeting is
// complete and right. Strangers are few, have little time and get no answer; a stranger that is
// wrong is only closed and counted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "secure/strangers.h"
#include "transport/events.h"
#include "transport/greeting.h"
#include "transport/tcp_socket.h"

namespace hvd::transport {

class TcpListener {
 public:
  // Keeps the wire of a proved call and returns true, or refuses it.
  using Admit = std::function<bool(const Call&, std::unique_ptr<Wire>&)>;

  // Listens on a free port of each address. `events`, `credentials` and `log` (may be null) outlive
  // the listener.
  static Result<std::unique_ptr<TcpListener>> open(Events& events,
                                                   const std::vector<SocketAddress>& addresses,
                                                   const Credentials& credentials,
                                                   Greeting::Expected expected, const Logger* log);

  const std::vector<SocketAddress>& addresses() const { return addresses_; }  // with their ports
  void on_event(const Event& event, const Admit& admit);
  void close();

 private:
  struct Caller {
    std::unique_ptr<Greeting> greeting;
    short wants = 0;
  };

  TcpListener(Events& events, const Credentials& credentials, Greeting::Expected expected,
              const Logger* log);
  void accept_some(uint32_t index);
  bool make_room();
  void take_in(Fd socket, const std::string& source);
  void listen_to(int id, const Admit& admit);
  void refuse(int id, const Status& why);
  void count_refusal(const Status& why);
  void dismiss(int id);
  void on_timer();
  void pause_accepting(Duration pause);
  void accept_again();
  void set_timer();

  Events& events_;
  const Credentials& credentials_;
  const Greeting::Expected expected_;
  const Logger* log_;
  std::vector<SocketAddress> addresses_;
  std::vector<Fd> sockets_;
  Fd timer_;
  std::map<int, Caller> callers_;  // by descriptor
  secure::Strangers strangers_;    // the same
  uint64_t refused_ = 0;
  bool paused_ = false;  // accepts no one until the timer says so
};

}  // namespace hvd::transport
