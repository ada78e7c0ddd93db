// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "transport/host_fabric.h"
#include "transport/host_rendezvous.h"
#include "transport/memfd_shared_memory.h"
#include "transport/missing.h"
#include "transport/peer_info.h"
#include "transport/thread_shared_memory.h"
#include "transport/unix_rendezvous.h"

namespace hvd::transport {
namespace {

// The result of meeting the ranks of this host; pidfds and sockets stay empty for threads.
struct Neighbours {
  std::shared_ptr<HostSharedMemory> shared;
  std::vector<Fd> pidfds;
  std::vector<Fd> sockets;
};

class Opening {
 public:
  Opening(rendezvous::Store& store, const FabricOptions& options, PeerTable met)
      : store_(store),
        options_(options),
        met_(std::move(met)),
        topology_(met_.peers, options.rank) {
    for (int host = 0; host < topology_.host_count(); ++host) keys_.push_back(host_key(host));
    if (topology_.host_count() == 1) return;
    for (std::string& key : host_rendezvous_keys(topology_.size())) keys_.push_back(std::move(key));
  }

  // A rank that has waited in vain has said so. Whoever still waits for a rank that gives up for
  // another reason would call it missing.
  Result<std::unique_ptr<Fabric>> run() {
    Result<std::unique_ptr<Fabric>> opened = open();
    if (const Status why = opened.status(); !opened.ok() && why.code() != Code::kTimeout) {
      tell_waited(store_, met_, options_.rank,
                  why.rank() < 0 ? std::vector<int>{} : std::vector<int>{why.rank()}, why);
    }
    return opened;
  }

 private:
  Result<std::unique_ptr<Fabric>> open() {
    FabricParts parts;
    Result<Events> events = Events::open();
    if (!events.ok()) return events.status();
    parts.events = std::make_unique<Events>(std::move(events).value());

    const bool threads = options_.in_process || topology_.local_size() == 1;
    Result<Neighbours> met = threads ? meet_threads() : meet_processes();
    if (!met.ok()) return met.status();
    Neighbours neighbours = std::move(met).value();
    parts.shared = std::move(neighbours.shared);
    const int bell = parts.shared->bell(topology_.local_rank());
    HVD_TRY(parts.events->add(bell, EPOLLIN, EventKind::kBell, 0));
    std::vector<pid_t> pids;
    for (const int rank : topology_.local_ranks()) pids.push_back(topology_.peer(rank).pid);
    Result<Watch> watch = Watch::start(*parts.events, std::move(neighbours.pidfds),
                                       std::move(neighbours.sockets), pids);
    if (!watch.ok()) return watch.status();
    parts.watch = std::make_unique<Watch>(std::move(watch).value());

    if (topology_.host_count() > 1) {
      Result<std::unique_ptr<TcpMesh>> mesh =
          meet_hosts(store_, options_, met_, topology_, *parts.events);
      if (!mesh.ok()) return mesh.status();
      parts.mesh = std::move(mesh).value();
    }
    if (topology_.size() > 1) parts.expulsions = options_.expulsions;
    for (const int descriptor : parts.expulsions.descriptors)
      HVD_TRY(parts.events->add(descriptor, EPOLLIN, EventKind::kLauncher, 0));
    clean_up(store_, met_, keys_);
    parts.topology = topology_;
    parts.log = options_.log;
    return std::unique_ptr<Fabric>(std::make_unique<HostFabric>(std::move(parts)));
  }

  static std::string host_key(int host) { return "host/" + std::to_string(host); }
  std::string my_host_key() const { return host_key(topology_.host_index(options_.rank)); }
  std::string verdict_key() const {
    return "verdict/" + std::to_string(topology_.host_index(options_.rank));
  }
  int first_here() const { return topology_.local_ranks()[0]; }

  Result<Neighbours> meet_threads() {
    const int members = topology_.local_size();
    std::shared_ptr<ThreadSharedMemory> shared;
    if (topology_.local_rank() == 0) {
      Result<std::shared_ptr<ThreadSharedMemory>> made = ThreadSharedMemory::create(members);
      if (!made.ok()) return made.status();
      shared = made.value();
      if (members > 1) {
        const Result<std::string> token = random_token();
        if (!token.ok()) return token.status();
        ThreadSharedMemory::publish(token.value(), shared);
        HVD_TRY(store_.set(met_.prefix + my_host_key(), token.value()));
      }
    } else {
      const Result<std::string> token =
          get_from(store_, met_, my_host_key(), first_here(), options_);
      if (!token.ok()) return token.status();
      shared = ThreadSharedMemory::find(token.value());
      if (shared == nullptr) {
        return Status(Code::kPeerLost,
                      "init: rank " + std::to_string(first_here()) + " has given up")
            .with_rank(first_here());
      }
    }
    std::vector<int> missing = shared->attach(topology_.local_rank(), options_.deadline);
    for (int& who : missing) who = topology_.local_ranks()[static_cast<size_t>(who)];
    if (!missing.empty()) return missing_after_all(store_, met_, options_, missing);
    return Neighbours{shared, {}, {}};
  }

  Result<Neighbours> meet_processes() {
    RendezvousOptions own;
    own.ranks = topology_.local_ranks();
    own.me = topology_.local_rank();
    own.job_size = options_.size;
    own.started = met_.started;
    own.deadline = options_.deadline;
    own.lost = options_.lost;
    std::vector<int> missing = {first_here()};
    Result<LocalRendezvous> met = own.me == 0 ? lead(own, missing) : join(own);
    if (!met.ok()) {
      if (met.status().code() == Code::kTimeout)
        tell_waited(store_, met_, options_.rank, missing, met.status());
      // The first rank of a host hears of a failure before the others, who only see it hang up.
      if (own.me != 0) return verdict_or(store_, met_, verdict_key(), met.status());
      publish_verdict(store_, met_, verdict_key(), met.status());
      return met.status();
    }
    LocalRendezvous here = std::move(met).value();
    Result<std::shared_ptr<MemfdSharedMemory>> shared =
        MemfdSharedMemory::open(std::move(here.memory), std::move(here.bells));
    if (!shared.ok()) return shared.status();
    return Neighbours{shared.value(), std::move(here.pidfds), std::move(here.sockets)};
  }

  Result<LocalRendezvous> lead(const RendezvousOptions& own, std::vector<int>& missing) {
    const Result<RendezvousPlace> place = RendezvousPlace::make();
    if (!place.ok()) return place.status();
    Result<Fd> listener = listen_at(place.value(), topology_.local_size());
    if (!listener.ok()) return listener.status();
    Result<Fd> memory = MemfdSharedMemory::make_file(topology_.local_size());
    if (!memory.ok()) return memory.status();
    HVD_TRY(store_.set(met_.prefix + my_host_key(), place.value().text()));
    return lead_rendezvous(std::move(listener).value(), place.value(), own,
                           std::move(memory).value(), missing);
  }

  Result<LocalRendezvous> join(const RendezvousOptions& own) {
    const Result<std::string> text = get_from(store_, met_, my_host_key(), first_here(), options_);
    if (!text.ok()) return text.status();
    const Result<RendezvousPlace> place = RendezvousPlace::parse(text.value());
    if (!place.ok()) return place.status();
    return join_rendezvous(place.value(), own);
  }

  rendezvous::Store& store_;
  const FabricOptions& options_;
  const PeerTable met_;
  const Topology topology_;
  std::vector<std::string> keys_;
};

}  // namespace

Result<std::unique_ptr<Fabric>> open_fabric(rendezvous::Store& store,
                                            const FabricOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return Status(Code::kInvalidArgument, "init: rank " + std::to_string(options.rank) + " of " +
                                              std::to_string(options.size) + " is no rank");
  }
  Result<PeerTable> met = exchange_peer_info(store, options);
  if (!met.ok()) return met.status();
  return Opening(store, options, std::move(met).value()).run();
}

}  // namespace hvd::transport
