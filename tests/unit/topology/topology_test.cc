// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

// Rank r runs on the host with the r-th letter.
Topology on(const std::string& hosts, int rank) {
  std::vector<Peer> peers;
  for (size_t at = 0; at < hosts.size(); ++at) {
    peers.push_back(
        {static_cast<int>(at), 1000 + static_cast<int>(at), std::string("host-") + hosts[at]});
  }
  return Topology(std::move(peers), rank);
}

struct Expected {
  int local_rank, local_size, cross_rank, cross_size;
};

void expect_numbers(const std::string& hosts, const std::vector<Expected>& expected,
                    bool homogeneous) {
  ASSERT_EQ(hosts.size(), expected.size());
  for (size_t at = 0; at < hosts.size(); ++at) {
    const int rank = static_cast<int>(at);
    const Topology topology = on(hosts, rank);
    SCOPED_TRACE(hosts + " rank " + std::to_string(rank));
    EXPECT_EQ(topology.rank(), rank);
    EXPECT_EQ(topology.size(), static_cast<int>(hosts.size()));
    EXPECT_EQ(topology.local_rank(), expected[at].local_rank);
    EXPECT_EQ(topology.local_size(), expected[at].local_size);
    EXPECT_EQ(topology.cross_rank(), expected[at].cross_rank);
    EXPECT_EQ(topology.cross_size(), expected[at].cross_size);
    EXPECT_EQ(topology.homogeneous(), homogeneous);
  }
}

TEST(Topology, OneRank) { expect_numbers("a", {{0, 1, 0, 1}}, true); }

TEST(Topology, OneHost) { expect_numbers("aaa", {{0, 3, 0, 1}, {1, 3, 0, 1}, {2, 3, 0, 1}}, true); }

TEST(Topology, EqualHosts) {
  expect_numbers("aabb", {{0, 2, 0, 2}, {1, 2, 0, 2}, {0, 2, 1, 2}, {1, 2, 1, 2}}, true);
}

TEST(Topology, InterleavedRanks) {
  expect_numbers("abab", {{0, 2, 0, 2}, {0, 2, 1, 2}, {1, 2, 0, 2}, {1, 2, 1, 2}}, true);
}

TEST(Topology, HostsCountByLowestRank) {
  expect_numbers("bba", {{0, 2, 0, 2}, {1, 2, 0, 1}, {0, 1, 1, 2}}, false);
}

TEST(Topology, UnevenHosts) {
  // Local rank 1 exists on two of three hosts, local rank 2 on one.
  expect_numbers(
      "abbbcc",
      {{0, 1, 0, 3}, {0, 3, 1, 3}, {1, 3, 0, 2}, {2, 3, 0, 1}, {0, 2, 2, 3}, {1, 2, 1, 2}}, false);
}

TEST(Topology, MapsOfOtherRanks) {
  const Topology topology = on("abacb", 4);
  EXPECT_EQ(topology.host_count(), 3);
  EXPECT_EQ(topology.ranks_on(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(topology.ranks_on(1), (std::vector<int>{1, 4}));
  EXPECT_EQ(topology.ranks_on(2), (std::vector<int>{3}));
  EXPECT_EQ(topology.local_ranks(), (std::vector<int>{1, 4}));
  EXPECT_EQ(topology.host_index(2), 0);
  EXPECT_EQ(topology.local_rank_of(2), 1);
  EXPECT_EQ(topology.local_rank_of(3), 0);
}

// For every placement of up to five ranks on up to three hosts, the ranks of one local rank number
// themselves 0, 1, …
TEST(Topology, CrossRanksAreDense) {
  int placements = 0;
  for (size_t size = 1; size <= 5; ++size) {
    int combinations = 1;
    for (size_t at = 0; at < size; ++at) combinations *= 3;
    for (int number = 0; number < combinations; ++number, ++placements) {
      std::string hosts;
      for (int left = number; hosts.size() < size; left /= 3)
        hosts += static_cast<char>('a' + left % 3);
      for (int rank = 0; rank < static_cast<int>(size); ++rank) {
        const Topology mine = on(hosts, rank);
        int peers_before = 0, peers = 0;
        for (int other = 0; other < static_cast<int>(size); ++other) {
          const Topology theirs = on(hosts, other);
          if (theirs.local_rank() != mine.local_rank()) continue;
          ++peers;
          if (theirs.host_index(other) < mine.host_index(rank)) ++peers_before;
        }
        ASSERT_EQ(mine.cross_rank(), peers_before) << hosts << " rank " << rank;
        ASSERT_EQ(mine.cross_size(), peers) << hosts << " rank " << rank;
      }
    }
  }
  EXPECT_EQ(placements, 3 + 9 + 27 + 81 + 243);
}

TEST(Topology, DescribesARank) {
  EXPECT_EQ(on("ab", 0).describe(1), "rank 1 (host host-b, pid 1001)");
}

}  // namespace
}  // namespace hvd
