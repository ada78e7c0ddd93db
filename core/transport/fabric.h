// SPDX-License-Identifier: Apache-2.0
// What connects one rank to the others: ordered control messages, lanes for data, the news that a
// rank is gone, and a way to sleep until one of these changes. Implementations: shared memory + TCP
// (fabric of processes) and in-process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "rendezvous/store.h"
#include "secure/tls.h"
#include "topology/topology.h"
#include "transport/expulsions.h"
#include "transport/lane.h"
#include "transport/lost_member.h"

namespace hvd::transport {

// Receives what poll() finds. Calls come from inside poll().
class Sink {
 public:
  virtual ~Sink() = default;
  // `bytes` is valid during the call only.
  virtual void on_message(int from, std::span<const std::byte> bytes) = 0;
  // Exactly once per lost rank. `cause` reads on after "rank 3 (host a, pid 7) ": e.g. "was killed
  // by signal 9 (SIGKILL)", "exited with code 3 without shutting down", "closed its connection",
  // "aborted: <its own reason>".
  virtual void on_peer_lost(int rank, const std::string& cause) = 0;
};

// Threads: send, poll, park_* and the lanes belong to the driver, the one thread at a time that
// holds the engine's progress role. interrupt() and poke() may be called from any thread.
// open_lane() is called by a thread of the user without the role. The call may block, and relies on
// the driver polling meanwhile (the engine thread sleeps on wait_fd()).
class Fabric {
 public:
  virtual ~Fabric() = default;

  virtual const Topology& topology() const = 0;

  // Queues one message for `peer` (never this rank itself); keeps order per peer; never blocks and
  // never loses: bytes that do not fit into the ring or socket are kept and sent by later polls. If
  // `urgent`, or if the peer has announced interest (set_interest) and sleeps, its bell is rung;
  // otherwise the peer sees the message when it polls next. `payload`, data of an operation, is the
  // end of the message: between hosts the payload may travel with the protection of data instead of
  // that of messages.
  virtual void send(int peer, std::span<const std::byte> bytes, bool urgent,
                    std::span<const std::byte> payload = {}) = 0;

  // Whether a large payload costs hardly more in a message than on a lane.
  virtual bool payloads_apart() const noexcept = 0;

  // Whether messages wait for room that nothing announces to a rank which sleeps already: somebody
  // must poll.
  virtual bool has_unsent() const noexcept = 0;

  // Delivers everything that has arrived, flushes what waited to be sent, accepts lane connections,
  // notices dead peers. True if anything happened. Cheap when nothing did (a few loads; system
  // calls only if there are remote hosts or the last park ended by an event).
  virtual bool poll(Sink& sink) = 0;

  // Says whether this rank has operations in flight: senders ring only interested sleepers.
  virtual void set_interest(bool interested) noexcept = 0;

  // Sleeping: park_begin() announces the sleep; if it returns false something arrived, do not
  // sleep. Then the caller blocks on wait_fd() (epoll descriptor: readable on bell, socket data,
  // peer death, interrupt) without holding the progress role, and whoever drives next calls
  // park_end(). begin/end may repeat.
  virtual bool park_begin() noexcept = 0;
  virtual void park_end() noexcept = 0;
  virtual int wait_fd() const noexcept = 0;

  // Wakes this rank's own sleeper.
  virtual void interrupt() noexcept = 0;
  // Wakes a rank on this host if it sleeps, interested or not; used by ranks that have waited long
  // for its data.
  virtual void poke(int peer) noexcept = 0;

  // Opens the data plane of one set on all its members, each calling this with the same id and
  // ranks. `bytes_per_member` of shared memory for each member on a host. An id may be used again
  // after all members have closed the lane.
  virtual Result<std::unique_ptr<Lane>> open_lane(int id, const std::vector<int>& ranks,
                                                  size_t bytes_per_member, Time deadline) = 0;
  // Gives the lane's memory back to the system (the last member's call discards the pages).
  virtual void close_lane(std::unique_ptr<Lane> lane) noexcept = 0;

  // Lets every peer find this rank's connections closed, because a message could not be sent. Once;
  // leave() or the end may follow.
  virtual void give_up() noexcept = 0;

  // Leaves in order: tells every peer that this rank's later silence is no failure, flushes queues
  // at most until the deadline, then closes sockets. Nothing but the destructor may follow.
  virtual void leave(Time deadline) noexcept = 0;
};

struct FabricOptions {
  int rank = 0;
  int size = 1;
  std::string host;  // ranks with the same text share memory; empty: this machine's identity
  // for connections to other machines: comma-separated names; empty: all but loopback
  std::string interfaces;
  // ranks are threads of this process: share the segment by pointer, no sockets
  bool in_process = false;
  secure::Level security = secure::Level::kAuth;
  // data between hosts that is not encrypted carries keyed checksums; not with kNone
  bool data_mac = false;
  // Null: the store is one that only ranks of the job can read, so a secret may go through it.
  std::shared_ptr<const secure::Keyring> keyring;
  std::string job = "job";            // letters, digits, dots, underscores, hyphens
  std::string library;                // the version; empty: that of this library
  std::string data_plane = "native";  // the mover of the data; the same on all ranks
  // data connections between two ranks on different hosts; the same on all ranks
  int tcp_streams = 1;
  // a rank on another host that is silent for so long is lost; 0: silence means nothing
  Duration peer_timeout{0};
  Time deadline = kNever;
  LostMember lost;
  Expulsions expulsions;
  const Logger* log = nullptr;  // outlives the fabric
};

// Meets all ranks through the store and connects to them. Collective. Fails at the deadline with a
// message that names the ranks that did not arrive.
Result<std::unique_ptr<Fabric>> open_fabric(rendezvous::Store& store, const FabricOptions& options);

}  // namespace hvd::transport
