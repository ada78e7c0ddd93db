// SPDX-License-Identifier: Apache-2.0
// TCP between ranks on different hosts: a connection per pair for control messages, some per pair
// and lane for data. The higher rank connects to the lower.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "topology/topology.h"
#include "transport/events.h"
#include "transport/lane.h"
#include "transport/liveness.h"
#include "transport/lost_member.h"
#include "transport/tcp_calls.h"
#include "transport/tcp_link.h"
#include "transport/tcp_listener.h"
#include "transport/tcp_stream.h"

namespace hvd::transport {

struct MeshOptions {
  Credentials credentials;
  std::vector<SocketAddress> listen_at;  // ports are chosen by the system
  // data connections per pair and lane, the same on all ranks
  int streams = 1;
  Duration peer_timeout{0};  // silence that means death; 0: silence means nothing
  LostMember lost;
  const Logger* log = nullptr;  // may be null; outlives the mesh
};

class TcpMesh {
 public:
  struct Departure {
    int rank;
    bool in_order;  // said goodbye
    std::string cause;
    bool silent = false;  // the whole host is silent
  };

  // Setting up: listen, publish addresses(), call all lower ranks on other hosts, then meet() waits
  // for them and the higher ones.
  static Result<std::unique_ptr<TcpMesh>> listen(Events& events, const Topology& topology,
                                                 MeshOptions options);
  const std::vector<SocketAddress>& addresses() const { return listener_->addresses(); }
  void call(int rank, std::vector<SocketAddress> candidates);
  Status meet(Time started, Time deadline);
  // After a time-out of meet(): the ranks that have not come. Empty if this rank could not reach
  // one, which is the error then.
  std::vector<int> missing() const {
    return calls_.timed_out().ok() ? not_connected() : std::vector<int>();
  }

  // Whether payloads of messages have a connection of their own, without TLS: in a job of two
  // ranks, unless all is encrypted.
  bool payloads_apart() const {
    return topology_.size() == 2 && options_.credentials.level != secure::Level::kEncrypt;
  }

  // The driver's. See Fabric::send for `payload`.
  void send(int rank, std::span<const std::byte> message, std::span<const std::byte> payload);
  void on_event(const Event& event);
  template <class Deliver>
  bool deliver(Deliver&& deliver) {
    bool any = false;
    for (const auto& [rank, payload_only] : std::exchange(readable_, {})) {
      TcpLink* link = links_[static_cast<size_t>(rank)].get();
      if (link == nullptr) continue;
      const auto take = [&, rank = rank](std::span<const std::byte> bytes) {
        deliver(rank, bytes);
      };
      const bool heard = payload_only ? link->deliver_complete(take) : link->receive(take);
      if (heard && liveness_) liveness_->heard(rank, now());
      any = heard || any;
      if (link->ending() != TcpLink::Ending::kNone) ended_.push_back(rank);
    }
    return any;
  }
  // Call after deliver(), when it is known which ranks have been heard.
  std::vector<Departure> take_departures();
  // Closes the connection to a rank; lanes being opened with it fail.
  void forget(int rank);
  void leave(Time deadline);
  // Makes the others notice even if a forked child still holds the sockets.
  void hang_up();

  // Any thread, while the driver goes on polling.
  Status open_streams(Lane& lane, Time deadline);

 private:
  using StreamKey = std::tuple<int, int, int>;  // lane, rank, stream

  TcpMesh(Events& events, const Topology& topology, MeshOptions options);
  bool expected(const Call& call) const;
  bool admit(const Call& call, std::unique_ptr<Wire>& wire);
  Status keep_link(int rank, std::unique_ptr<Wire> wire);
  Status keep_payloads(int rank, bool sending, std::unique_ptr<Wire> wire);
  bool take_events();
  Status keep_connections();
  Status check_arrived() const;
  bool remote(int rank) const {
    return topology_.host_index(rank) != topology_.host_index(topology_.rank());
  }
  std::vector<int> not_connected() const;
  Status watch_for_silence();
  void look_for_silence(std::vector<Departure>& departures);
  Status towards(int rank, const std::string& what, const Status& why) const;
  Result<std::map<StreamKey, std::unique_ptr<Wire>>> call_for_lane(const Lane& lane, Time deadline);
  Result<std::unique_ptr<Stream>> open_stream(const Lane& lane, int rank,
                                              std::map<StreamKey, std::unique_ptr<Wire>>& called,
                                              Time deadline);
  Result<std::unique_ptr<Wire>> await_wire(const StreamKey& key, Time deadline);
  int first_gone(const std::vector<int>& ranks);

  Events& events_;
  const Topology topology_;
  const MeshOptions options_;
  std::unique_ptr<TcpListener> listener_;
  Calls calls_;                                  // while setting up
  std::vector<std::unique_ptr<TcpLink>> links_;  // per rank
  // Connections for payloads that were complete before their rank's link, by rank and whether they
  // send.
  std::map<std::pair<int, bool>, std::unique_ptr<Wire>> early_payloads_;
  std::vector<std::optional<SocketAddress>> where_;  // per rank; where a lower one was reached
  // rank; whether it is the connection for payloads
  std::vector<std::pair<int, bool>> readable_;
  std::vector<int> ended_;
  std::unique_ptr<Liveness> liveness_;
  Fd liveness_timer_;
  bool tick_due_ = false;
  const std::shared_ptr<BrokenStreams> broken_streams_ = std::make_shared<BrokenStreams>();
  Status trouble_;  // the first failure inside admit()

  Mutex mutex_;  // for the rest: shared with threads that open lanes
  std::condition_variable changed_;
  std::map<StreamKey, std::unique_ptr<Wire>> arrived_ HVD_GUARDED_BY(mutex_);
  std::vector<bool> gone_ HVD_GUARDED_BY(mutex_);  // per rank
};

}  // namespace hvd::transport
