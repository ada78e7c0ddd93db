// SPDX-License-Identifier: Apache-2.0
// Index arithmetic: every byte has exactly one owner and one block, and cursors find it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "collectives/patterns.h"
#include "collectives/slots.h"
#include "collectives/virtual_vector.h"

namespace hvd::collectives {
namespace {

TEST(Blocks, InterleavedChunksCoverTheVectorOnce) {
  for (size_t total : {1u, 63u, 64u, 65u, 1000u, 4096u, 100000u, 1000003u}) {
    for (int owners : {1, 2, 3, 7, 16}) {
      const Blocks blocks = Blocks::interleaved(total, owners, 4096);
      EXPECT_LE(blocks.chunk(), 4096u);
      EXPECT_EQ(blocks.chunk() % kGrain, 0u);
      size_t at = 0;
      for (size_t b = 0; b < blocks.count(); ++b) {
        EXPECT_GT(blocks.range(b, 0).size(), 0u) << "an empty block";
        for (int q = 0; q < owners; ++q) {
          const Range range = blocks.range(b, q);
          EXPECT_EQ(range.begin, at);
          EXPECT_LE(range.size(), blocks.chunk());
          at = range.end;
        }
      }
      EXPECT_EQ(at, total) << owners << " owners";
    }
  }
}

TEST(Blocks, NothingHasNoBlocks) {
  EXPECT_EQ(Blocks::interleaved(0, 4, 4096).count(), 0u);
  const std::array<size_t, 3> bounds{0, 0, 0};
  EXPECT_EQ(Blocks::by_owner(bounds, 4096).count(), 0u);
}

TEST(Blocks, ConsecutiveSharesAreCutAlike) {
  const std::array<size_t, 5> bounds{0, 10000, 10000, 10001, 60000};
  const Blocks blocks = Blocks::by_owner(bounds, 4096);
  EXPECT_LE(blocks.chunk(), 4096u);
  for (int q = 0; q < 4; ++q) {
    size_t at = bounds[static_cast<size_t>(q)];
    for (size_t b = 0; b < blocks.count(); ++b) {
      const Range range = blocks.range(b, q);
      EXPECT_EQ(range.begin, at);
      at = range.end;
    }
    EXPECT_EQ(at, bounds[static_cast<size_t>(q) + 1]) << "owner " << q;
  }
}

TEST(Blocks, SixGigabytes) {
  const size_t total = (size_t{6} << 30) + 5;
  const Blocks blocks = Blocks::interleaved(total, 2, size_t{128} << 10);
  EXPECT_EQ(blocks.range(blocks.count() - 1, 1).end, total);
}

TEST(StreamOrder, EveryInputAndResultOnceAndInOrder) {
  for (size_t blocks : {1u, 2u, 3u, 7u, 20u}) {
    for (size_t ahead : {1u, 2u, 3u, 8u, 30u}) {
      for (bool results : {true, false}) {
        const StreamOrder order(blocks, ahead, results);
        ASSERT_EQ(order.items(), results ? 2 * blocks : blocks);
        size_t inputs = 0;
        size_t done = 0;
        for (size_t item = 0; item < order.items(); ++item) {
          EXPECT_EQ(order.inputs_in(item), inputs);
          EXPECT_EQ(order.results_in(item), done);
          const StreamOrder::Entry entry = order.at(item);
          EXPECT_EQ(entry.block, entry.result ? done : inputs) << "item " << item;
          ++(entry.result ? done : inputs);
          EXPECT_LE(done, inputs) << "a result before its input";
          EXPECT_TRUE(!results || inputs <= done + ahead + 1) << "too far ahead";
        }
        EXPECT_EQ(inputs, blocks);
      }
    }
  }
}

TEST(StreamOrder, ReachUntilTheFirstThatIsNotReady) {
  for (size_t ahead : {1u, 2u, 5u, 9u}) {
    for (bool results : {true, false}) {
      const StreamOrder order(6, ahead, results);
      for (size_t inputs = 0; inputs <= 6; ++inputs) {
        for (size_t done = 0; done <= inputs; ++done) {
          size_t expected = 0;
          while (expected < order.items()) {
            const StreamOrder::Entry entry = order.at(expected);
            if (entry.block >= (entry.result ? done : inputs)) break;
            ++expected;
          }
          EXPECT_EQ(order.reachable(inputs, done), expected)
              << ahead << " " << inputs << " " << done;
        }
      }
    }
  }
}

TEST(HostMap, UnevenHosts) {
  const HostMap map(std::vector<int>{0, 1, 1, 0, 1, 2}, 3);
  EXPECT_EQ(map.hosts(), 3);
  EXPECT_EQ(map.smallest(), 1);
  EXPECT_FALSE(map.alone());
  EXPECT_EQ(map.members(1), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(map.place(4), 2);
  EXPECT_EQ(map.proxy(0, 4), 0) << "third of its host, of two members the first";
  EXPECT_EQ(map.proxy(1, 4), 4) << "itself";
  EXPECT_EQ(map.wards(0), (std::vector<int>{1, 4, 5}));
  EXPECT_EQ(map.wards(5), (std::vector<int>{0, 1, 2, 3, 4}));
  for (int m = 0; m < 6; ++m) {
    for (int host = 0; host < 3; ++host) {
      const int proxy = map.proxy(host, m);
      EXPECT_EQ(map.host(proxy), host);
      const std::vector<int> wards = map.wards(proxy);
      EXPECT_EQ(std::count(wards.begin(), wards.end(), m), proxy == m ? 0 : 1);
    }
  }
}

TEST(Broadcast, ParentsAndChildrenAgreeAndReachAllHosts) {
  for (bool chain : {true, false}) {
    for (int hosts = 1; hosts <= 40; ++hosts) {
      int reached = 1;
      for (int host = 0; host < hosts; ++host) {
        for (int child : broadcast_children(host, hosts, chain)) {
          EXPECT_EQ(broadcast_parent(child, chain), host);
          EXPECT_GT(child, host);
          EXPECT_LT(child, hosts);
          ++reached;
        }
      }
      EXPECT_EQ(reached, hosts);
    }
  }
  EXPECT_EQ(broadcast_children(0, 8, false), (std::vector<int>{1, 2, 4}));
}

TEST(Cursor, VisitsEveryByteOfRandomRanges) {
  std::mt19937 random(5);
  std::vector<std::byte> memory(5000);
  std::vector<Segment> segments;
  std::vector<const std::byte*> where;  // per byte of the vector
  for (size_t at = 0; at < memory.size();) {
    const size_t bytes = std::min<size_t>(1 + random() % 97, memory.size() - at);
    segments.push_back({memory.data() + at, nullptr, bytes});
    for (size_t i = 0; i < bytes; ++i) where.push_back(memory.data() + at + i);
    at += bytes + random() % 3;
  }
  Cursor cursor(segments);
  for (int i = 0; i < 2000; ++i) {
    const size_t begin = random() % where.size();
    const Range range{begin, begin + random() % (where.size() - begin + 1)};
    size_t at = range.begin;
    cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
      ASSERT_EQ(range.begin + done, at);
      ASSERT_GT(length, 0u);
      for (size_t k = 0; k < length; ++k) ASSERT_EQ(segment.in + offset + k, where[at + k]);
      at += length;
    });
    ASSERT_EQ(at, range.end);
    size_t first = 0;
    const size_t used = cursor.first_stretches(
        range, 3, [&](size_t, const Segment& segment, size_t offset, size_t length) {
          ASSERT_EQ(segment.in + offset, where[range.begin + first]);
          first += length;
        });
    ASSERT_LE(used, 3u);
    if (used < 3) {
      ASSERT_EQ(range.begin + first, range.end);
    }
  }
}

TEST(Slots, MemoryPerMemberIsBounded) {
  for (int n : {1, 3, 4}) EXPECT_EQ(chunk_bytes(n, 1), size_t{128} << 10) << n;
  EXPECT_EQ(chunk_bytes(2, 1), size_t{256} << 10);
  EXPECT_EQ(chunk_bytes(2, 2), size_t{128} << 10);
  EXPECT_LE(bytes_per_member(2, 1), (size_t{1} << 20) + kControlBytes);
  EXPECT_LE(bytes_per_member(4, 1), (size_t{1} << 20) + kControlBytes);
  for (int n = 1; n <= 256; ++n) {
    EXPECT_LE(bytes_per_member(n, 1), (size_t{2} << 20) + kControlBytes) << n;
    EXPECT_EQ(bytes_per_member(n, 1) % 4096, 0u) << n;
  }
}

TEST(Slots, MemoryOfAHostIsBounded) {
  for (int n = 1; n <= 64; ++n) {
    EXPECT_LE(bytes_per_member(n, 1) * static_cast<size_t>(n),
              (size_t{32} << 20) + kControlBytes * static_cast<size_t>(n))
        << n;
  }
  EXPECT_EQ(chunk_bytes(64, 8), chunk_bytes(64, 4));  // 8 or 16 members on a host
  EXPECT_LT(chunk_bytes(64, 1), chunk_bytes(64, 4));
}

TEST(AdasumWeights, OrthogonalVectorsAreAddedAndEqualOnesAveraged) {
  std::array<double, 2> weights{};
  const std::array<double, 4> orthogonal{4, 0, 0, 9};
  adasum_weights(orthogonal.data(), {true, true}, weights.data());
  EXPECT_EQ(weights[0], 1.0);
  EXPECT_EQ(weights[1], 1.0);
  const std::array<double, 4> equal{4, 4, 4, 4};
  adasum_weights(equal.data(), {true, true}, weights.data());
  EXPECT_EQ(weights[0], 0.5);
  EXPECT_EQ(weights[1], 0.5);
}

TEST(AdasumWeights, ZeroVectorsAndAbsentMembers) {
  std::array<double, 3> weights{};
  const std::array<double, 9> gram{0, 0, 0, 0, 9, 0, 0, 0, 4};
  adasum_weights(gram.data(), {true, true, false}, weights.data());
  EXPECT_EQ(weights[0], 1.0);
  EXPECT_EQ(weights[1], 1.0);
  EXPECT_EQ(weights[2], 0.0);
  adasum_weights(gram.data(), {false, false, false}, weights.data());
  EXPECT_EQ(weights[1], 0.0);
}

// x and -x cancel to rounding noise, which must not be blown up to the size of the third vector or
// beyond.
TEST(AdasumWeights, CancelledVectorsCountAsZero) {
  const double x = 0.1;
  const double y = x * (1 + 1e-15);
  const double z = 3;
  const std::array<double, 9> gram{x * x,  -x * y, x * z,  -x * y, y * y,
                                   -y * z, x * z,  -y * z, z * z};
  std::array<double, 3> weights{};
  adasum_weights(gram.data(), {true, true, true}, weights.data());
  EXPECT_NEAR(weights[0], 1.5, 1e-9);
  EXPECT_NEAR(weights[1], 1.5, 1e-9);
  EXPECT_NEAR(weights[2], 1.0, 1e-9);
}

}  // namespace
}  // namespace hvd::collectives
