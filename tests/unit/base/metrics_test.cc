// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace hvd {
namespace {

TEST(MetricTable, NamesAreUniqueAndUnitsKnown) {
  std::set<std::string> names;
  const std::set<std::string> units{"1", "bytes", "ns"};
  for (const MetricRow& row : kMetricRows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(units.count(row.unit), 1U) << row.name;
    EXPECT_GT(std::string(row.help).size(), 10u) << row.name;
  }
}

TEST(MetricTable, EachRowReadsItsOwnCounter) {
  for (const MetricRow& row : kMetricRows) {
    Metrics metrics;
    count(metrics.*row.member, 3);
    for (const MetricRow& other : kMetricRows)
      EXPECT_EQ(other.value(metrics), &other == &row ? 3u : 0u) << row.name;
  }
}

TEST(Metrics, CountsOfSeveralThreadsAddUp) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10000; ++round) {
        count(metrics.messages_sent);
        count(metrics.messages_received, 2);
        uncount(metrics.messages_received);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.messages_sent.load(), 40000u);
  EXPECT_EQ(metrics.messages_received.load(), 40000u);
}

}  // namespace
}  // namespace hvd
