// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.h"

#include <map>
#include <utility>

namespace hvd {

Topology::Topology(std::vector<Peer> peers, int rank) : peers_(std::move(peers)), rank_(rank) {
  std::map<std::string, int> index_of;
  for (const Peer& peer : peers_) {
    auto [found, added] = index_of.try_emplace(peer.host, static_cast<int>(ranks_on_.size()));
    if (added) ranks_on_.emplace_back();
    auto& here = ranks_on_[static_cast<size_t>(found->second)];
    host_of_.push_back(found->second);
    local_rank_of_.push_back(static_cast<int>(here.size()));
    here.push_back(peer.rank);
  }
  cross_size_ = 0;
  for (int host = 0; host < host_count(); ++host) {
    const size_t ranks_here = ranks_on_[static_cast<size_t>(host)].size();
    if (ranks_here != ranks_on_[0].size()) homogeneous_ = false;
    if (ranks_here <= static_cast<size_t>(local_rank())) continue;
    if (host == host_index(rank_)) cross_rank_ = cross_size_;
    ++cross_size_;
  }
}

std::string Topology::describe(int rank) const {
  const Peer& who = peer(rank);
  return "rank " + std::to_string(rank) + " (host " + who.host + ", pid " +
         std::to_string(who.pid) + ")";
}

}  // namespace hvd
