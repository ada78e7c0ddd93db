// SPDX-License-Identifier: Apache-2.0
// TCP between ranks on different hosts: one connection per pair for control messages, one per pair and lane for data. The
// higher rank connects to the lower.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "topology/topology.h"
#include "transport/events.h"
#include "transport/lane.h"
#include "transport/tcp_door.h"
#include "transport/tcp_link.h"

namespace hvd::transport {

class TcpMesh {
 public:
  struct Departure {
    int rank;
    bool in_order;  // said goodbye
    std::string cause;
  };

  // Setting up: listen, publish address(), connect to all lower ranks on other hosts, wait for the higher ones.
  static Result<std::unique_ptr<TcpMesh>> listen(Events& events, const Topology& topology, const std::string& address,
                                                 const std::string& token, const Logger* log);
  const std::string& address() const { return door_.address(); }
  Status connect_control(int rank, const std::string& address, Time deadline);
  Status accept_controls(Time started, Time deadline);

  // The driver's.
  void send(int rank, std::span<const std::byte> message);
  void on_event(const Event& event);
  template <class Deliver>
  bool deliver(Deliver&& deliver) {
    bool any = false;
    for (int rank : std::exchange(readable_, {})) {
      TcpLink* link = links_[static_cast<size_t>(rank)].get();
      if (link == nullptr) continue;
      any = link->receive([&](std::span<const std::byte> bytes) { deliver(rank, bytes); }) || any;
      if (link->ending() != TcpLink::Ending::kNone) ended_.push_back(rank);
    }
    return any;
  }
  std::vector<Departure> take_departures();
  // Closes the connection to a rank; lanes being opened with it fail.
  void forget(int rank);
  void leave(Time deadline);
  // Makes the others notice even if a forked child still holds the sockets.
  void hang_up();

  // Any thread, while the driver goes on polling.
  Status open_streams(Lane& lane, Time deadline);

 private:
  TcpMesh(Events& events, Topology topology, std::string token, TcpDoor door);
  bool admit(const TcpHello& hello, Fd& socket);
  bool remote(int rank) const { return topology_.host_index(rank) != topology_.host_index(topology_.rank()); }
  Result<Fd> say_hello(int rank, int lane, Time deadline) const;
  Result<Fd> await_stream(int rank, int lane, Time deadline);
  std::vector<int> not_connected() const;

  Events& events_;
  const Topology topology_;
  const std::string token_;
  TcpDoor door_;
  std::vector<std::unique_ptr<TcpLink>> links_;  // per rank
  std::vector<SocketAddress> addresses_;         // per rank; of the lower ones
  std::vector<int> readable_;
  std::vector<int> ended_;
  const std::shared_ptr<BrokenStreams> broken_streams_ = std::make_shared<BrokenStreams>();
  Status trouble_;  // the first failure inside admit()

  std::mutex mutex_;  // for the rest: shared with threads that open lanes
  std::condition_variable changed_;
  std::map<std::pair<int, int>, Fd> arrived_;  // by lane and rank
  std::vector<bool> gone_;                     // per rank
};

}  // namespace hvd::transport
