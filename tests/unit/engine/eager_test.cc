// SPDX-License-Identifier: Apache-2.0
#include "engine/eager.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace hvd::engine {
namespace {

// `size` ranks, `per_host` on each host.
Topology topology_of(int size, int per_host) {
  std::vector<Peer> peers;
  for (int rank = 0; rank < size; ++rank)
    peers.push_back({rank, 1, "n" + std::to_string(rank / per_host)});
  return Topology(peers, 0);
}

EagerLimit limit(int size, int per_host, bool payloads_apart = false) {
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return eager_limit(kChooseEagerBytes, topology_of(size, per_host), all, payloads_apart);
}

TEST(EagerLimit, DependsOnHowManyRanksAreFar) {
  EXPECT_EQ((EagerLimit{1024, 1024}), limit(1, 1));
  EXPECT_EQ((EagerLimit{1024, 1024}), limit(64, 64));
  EXPECT_EQ((EagerLimit{8192, 1024, true}), limit(2, 1));
  EXPECT_EQ((EagerLimit{8192, 1024}), limit(5, 1));
  EXPECT_EQ((EagerLimit{4096, 1024}), limit(16, 8));
  EXPECT_EQ((EagerLimit{2048, 1024}), limit(17, 1));
  EXPECT_EQ((EagerLimit{1024, 1024}), limit(1000, 8));
}

TEST(EagerLimit, IsWhatTwoHostsExchangeAtOnceIfPayloadsGoApart) {
  EXPECT_EQ((EagerLimit{65536, 1024, true}), limit(2, 1, true));
  EXPECT_EQ((EagerLimit{1024, 1024}), limit(2, 2, true));
}

TEST(EagerLimit, OfASetLooksAtItsRanksOnly) {
  const Topology topology = topology_of(8, 4);
  EXPECT_EQ((EagerLimit{1024, 1024}),
            eager_limit(kChooseEagerBytes, topology, {4, 5, 6, 7}, false));
  EXPECT_EQ((EagerLimit{8192, 1024, true}),
            eager_limit(kChooseEagerBytes, topology, {3, 4}, false));
}

TEST(EagerLimit, IsWhatTheOptionSays) {
  for (const int64_t option : {0, 100, 8192})
    EXPECT_EQ((EagerLimit{option, option}),
              eager_limit(option, topology_of(4, 1), {0, 1, 2, 3}, true));
}

TEST(HostsOf, CountFromTheFirstMember) {
  const Topology topology = topology_of(8, 2);
  EXPECT_EQ((std::vector<int>{0, 0, 1, 1, 2}), hosts_of(topology, {2, 3, 4, 5, 7}));
  EXPECT_EQ((std::vector<int>{}), hosts_of(topology, {2, 3}));
  EXPECT_EQ((std::vector<int>{}), hosts_of(topology, {0, 2, 4}));
}

}  // namespace
}  // namespace hvd::engine
