// SPDX-License-Identifier: Apache-2.0
// Who is where: ranks, hosts, and the local and cross numbers derived from them. Pure data.
#pragma once

#include <string>
#include <vector>

namespace hvd {

// A rank of the job as it introduced itself at rendezvous.
struct Peer {
  int rank = 0;
  int pid = 0;
  std::string host;  // ranks with equal host share memory
};

class Topology {
 public:
  Topology() = default;
  // `peers` in rank order; `rank` is this rank.
  Topology(std::vector<Peer> peers, int rank);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  int local_rank() const { return local_rank_of_[static_cast<size_t>(rank_)]; }
  int local_size() const { return static_cast<int>(local_ranks().size()); }
  int cross_rank() const { return cross_rank_; }
  int cross_size() const { return cross_size_; }
  bool homogeneous() const { return homogeneous_; }

  const Peer& peer(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  // hosts count from 0 by lowest rank
  int host_index(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  int host_count() const { return static_cast<int>(ranks_on_.size()); }
  int local_rank_of(int rank) const { return local_rank_of_[static_cast<size_t>(rank)]; }
  const std::vector<int>& ranks_on(int host_index) const {
    return ranks_on_[static_cast<size_t>(host_index)];
  }
  const std::vector<int>& local_ranks() const { return ranks_on(host_index(rank_)); }

  // "rank 3 (host node1, pid 4711)"
  std::string describe(int rank) const;

 private:
  std::vector<Peer> peers_;
  std::vector<int> host_of_;
  std::vector<int> local_rank_of_;
  std::vector<std::vector<int>> ranks_on_;
  int rank_ = 0;
  int cross_rank_ = 0;
  int cross_size_ = 1;
  bool homogeneous_ = true;
};

}  // namespace hvd
