// SPDX-License-Identifier: Apache-2.0
// How the ranks of several hosts come to be connected: shared secrets, places to listen, and who
// calls whom.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/store.h"
#include "transport/events.h"
#include "transport/fabric.h"
#include "transport/peer_info.h"
#include "transport/tcp_mesh.h"

namespace hvd::transport {

// Collective over all ranks of a job with several hosts. `events` outlives the mesh.
Result<std::unique_ptr<TcpMesh>> meet_hosts(rendezvous::Store& store, const FabricOptions& options,
                                            const PeerTable& met, const Topology& topology,
                                            Events& events);

// The keys that this leaves in the store.
std::vector<std::string> host_rendezvous_keys(int size);

}  // namespace hvd::transport
