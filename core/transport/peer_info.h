// SPDX-License-Identifier: Apache-2.0
// The first step of a job: every rank says through the store who and where it is.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/store.h"
#include "transport/fabric.h"

namespace hvd::transport {

struct PeerTable {
  std::string prefix;       // begins all store keys of this rendezvous
  int64_t round = 0;        // the number of this rendezvous on its store, from 1
  std::vector<Peer> peers;  // in rank order
  // per rank; equal for ranks that reach each other by loopback
  std::vector<std::string> machine_of;
  Time started = {};
};

// Collective. The k-th call of every rank on one store meets the k-th of all others.
Result<PeerTable> exchange_peer_info(rendezvous::Store& store, const FabricOptions& options);

// Waits for one key of the rendezvous that `rank` sets; a time-out names that rank.
Result<std::string> get_from(rendezvous::Store& store, const PeerTable& met, const std::string& key,
                             int rank, const FabricOptions& options);

// Why the rendezvous failed, for those who learn only that their connection to the one who found
// out is closed.
void publish_verdict(rendezvous::Store& store, const PeerTable& met, const std::string& key,
                     const Status& why);

// The verdict if there is one or comes at once, else `fallback`.
Status verdict_or(rendezvous::Store& store, const PeerTable& met, const std::string& key,
                  const Status& fallback);

// Each rank calls this when it needs the store no more; the last one removes the keys of the
// rendezvous.
void clean_up(rendezvous::Store& store, const PeerTable& met, const std::vector<std::string>& keys);

}  // namespace hvd::transport
