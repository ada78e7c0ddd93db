// SPDX-License-Identifier: Apache-2.0
#include "base/histograms.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "base/metrics.h"

namespace hvd {
namespace {

TEST(HistogramTable, NamesAreUniqueAlsoAmongMetricsAndUnitsKnown) {
  std::set<std::string> names;
  for (const MetricRow& row : kMetricRows) names.insert(row.name);
  const std::set<std::string> units{"1", "bytes", "ns"};
  for (const HistogramRow& row : kHistogramRows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(units.count(row.unit), 1U) << row.name;
    EXPECT_GT(std::string(row.help).size(), 10U) << row.name;
  }
}

TEST(Histogram, ABucketHoldsItsUpperBound) {
  EXPECT_EQ(Histogram::bucket_of(0), 0U);
  EXPECT_EQ(Histogram::bucket_of(1), 0U);
  EXPECT_EQ(Histogram::bucket_of(2), 1U);
  EXPECT_EQ(Histogram::bucket_of(3), 2U);
  for (size_t i = 2; i < 62; ++i) {
    EXPECT_EQ(Histogram::bucket_of((uint64_t{1} << i) - 1), i);
    EXPECT_EQ(Histogram::bucket_of(uint64_t{1} << i), i);
    EXPECT_EQ(Histogram::bucket_of((uint64_t{1} << i) + 1), i + 1);
  }
  EXPECT_EQ(Histogram::bucket_of(UINT64_MAX), Histogram::kBuckets - 1);
}

TEST(Histogram, AddsUp) {
  Histogram histogram;
  for (const uint64_t value : {3, 4, 4, 100}) histogram.add(value);
  EXPECT_EQ(histogram.sum(), 111U);
  EXPECT_EQ(histogram.bucket(2), 3U);
  EXPECT_EQ(histogram.bucket(7), 1U);
}

TEST(Histogram, IsReadWhileItGrows) {
  Histogram histogram;
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    uint64_t before = 0;
    while (!stop.load()) {
      const uint64_t now = histogram.bucket(3);
      EXPECT_GE(now, before);
      before = now;
    }
  });
  for (int i = 0; i < 100000; ++i) histogram.add(8);
  stop.store(true);
  reader.join();
  EXPECT_EQ(histogram.bucket(3), 100000U);
  EXPECT_EQ(histogram.sum(), 800000U);
}

}  // namespace
}  // namespace hvd
