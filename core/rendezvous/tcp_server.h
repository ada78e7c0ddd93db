// SPDX-License-Identifier: Apache-2.0
// The server of a TCP store: one thread that moves bytes between its clients and a StoreService.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork_guard.h"
#include "base/status.h"
#include "rendezvous/store_service.h"

struct pollfd;

namespace hvd::rendezvous {

class TcpServer {
 public:
  static constexpr size_t kMaxClients = 1024;
  static constexpr Duration kFarewell = std::chrono::seconds(2);

  // Listens at once. Port 0 takes a free one.
  static Result<std::unique_ptr<TcpServer>> start(const sockaddr_in& address, const std::string& job);

  // Accepts nobody any more, waits until the clients have gone, at most kFarewell, and ends.
  ~TcpServer();

  uint16_t port() const { return port_; }

  TcpServer(Fd listener, Fd wake, uint16_t port, const std::string& job);

 private:
  void run();
  void wait(std::vector<pollfd>& watched, Time limit);
  void accept_all();
  bool serve(int client, short events);
  void drop(int client);

  Fd listener_;
  const Fd wake_;
  const uint16_t port_;
  std::atomic<bool> stopping_{false};
  Time accept_again_{};  // out of descriptors until then

  // Owned by the thread.
  StoreService service_;
  std::map<int, Fd> clients_;

  const ForkGuard fork_guard_;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace hvd::rendezvous
