// SPDX-License-Identifier: Apache-2.0
// The fabric as it runs: a mailbox and a death watch for the ranks of this host, TCP for the
// others.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/events.h"
#include "transport/fabric.h"
#include "transport/host_shared_memory.h"
#include "transport/mailbox.h"
#include "transport/suspicions.h"
#include "transport/tcp_mesh.h"
#include "transport/watch.h"

namespace hvd::transport {

// The parts that open_fabric() has put together. `events` is on the heap because the watch and the
// mesh point to it.
struct FabricParts {
  Topology topology;
  std::unique_ptr<Events> events;
  std::shared_ptr<HostSharedMemory> shared;
  std::unique_ptr<Watch> watch;
  std::unique_ptr<TcpMesh> mesh;  // null if all ranks are on this host
  Expulsions expulsions;          // the descriptors are among `events`
  const Logger* log = nullptr;
};

class HostFabric final : public Fabric {
 public:
  explicit HostFabric(FabricParts parts);
  ~HostFabric() override;
  HostFabric(const HostFabric&) = delete;
  HostFabric& operator=(const HostFabric&) = delete;

  const Topology& topology() const override { return topology_; }
  void send(int peer, std::span<const std::byte> bytes, bool urgent,
            std::span<const std::byte> payload) override;
  bool payloads_apart() const noexcept override { return mesh_ && mesh_->payloads_apart(); }
  bool poll(Sink& sink) override;
  void set_interest(bool interested) noexcept override { mailbox_.set_interest(interested); }
  bool park_begin() noexcept override;
  void park_end() noexcept override;
  int wait_fd() const noexcept override { return events_->fd(); }
  bool has_unsent() const noexcept override { return !mailbox_.all_sent(); }
  void interrupt() noexcept override;
  void poke(int peer) noexcept override;
  Result<std::unique_ptr<Lane>> open_lane(int id, const std::vector<int>& ranks,
                                          size_t bytes_per_member, Time deadline) override;
  void close_lane(std::unique_ptr<Lane> lane) noexcept override;
  void give_up() noexcept override;
  void leave(Time deadline) noexcept override;

 private:
  enum class Peerhood : uint8_t { kHere, kLeft, kLost };

  bool on_this_host(int rank) const {
    return topology_.host_index(rank) == topology_.host_index(topology_.rank());
  }
  int rank_of(int member) const { return topology_.local_ranks()[static_cast<size_t>(member)]; }
  bool receive_local(Sink& sink);
  bool look_at_presence(Sink& sink);
  void lose_everybody(Sink& sink);
  bool events_due(bool anything_happened);
  bool handle_events(Sink& sink);
  bool handle_watch(Sink& sink);
  bool handle_launcher(Sink& sink);
  bool handle_mesh(Sink& sink);
  void lose_remote(Sink& sink, const TcpMesh::Departure& departure);
  bool lose_suspects(Sink& sink);
  bool nobody_left_beside(int rank) const;
  void drain_bell();
  void say_goodbye(Time deadline);
  // The last words of a rank are delivered before the news of its end.
  void drop(Sink& sink, int rank, Peerhood how, const std::string& cause);

  const Topology topology_;
  const pid_t creator_;
  const Logger* log_;
  std::unique_ptr<Events> events_;
  std::shared_ptr<HostSharedMemory> shared_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<TcpMesh> mesh_;
  Expulsions expulsions_;
  Mailbox mailbox_;
  Suspicions suspicions_;
  const bool watching_;  // wait_fd() has more in it than the bell

  std::vector<Peerhood> peers_;  // per rank
  std::vector<int> broken_;      // members whose ring was malformed
  uint32_t news_seen_ = 0;
  bool gone_ = false;  // leave() or give_up() has run

  bool parked_ = false;
  bool stirred_ = false;     // something happened since the last park_end()
  bool events_due_ = false;  // look at the descriptors in the next poll
  bool bell_owed_ = false;   // the bell was rung and is not drained yet
  uint32_t polls_ = 0;
  Time events_seen_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace hvd::transport
