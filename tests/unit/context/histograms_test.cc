// SPDX-License-Identifier: Apache-2.0
// What histograms and counters of waiting, sizes and transports say of operations, over hvd.h.
#include <chrono>
#include <map>
#include <thread>

#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

constexpr double kNsPerMs = 1e6;

std::map<std::string, hvd_histogram> all_histograms(Job& job) {
  std::vector<hvd_histogram> all(100);
  size_t count = all.size();
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(hvd_histograms_snapshot(job.get(), all.data(), &count, &error), HVD_OK)
      << error.message;
  std::map<std::string, hvd_histogram> named;
  for (size_t i = 0; i < count; ++i) named[all[i].name] = all[i];
  return named;
}

std::map<std::string, double> counters_of(Job& job) {
  std::vector<hvd_metric> all(100);
  size_t count = all.size();
  EXPECT_EQ(hvd_metrics_snapshot(job.get(), all.data(), &count, nullptr), HVD_OK);
  std::map<std::string, double> named;
  for (size_t i = 0; i < count; ++i) named[all[i].name] = all[i].value;
  return named;
}

TEST(Histograms, CountSizesAndTimes) {
  run_ranks(2, [](Job& job) {
    std::vector<float> data(1 << 20, 1.0F);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(job.sum(data, "large").status, HVD_OK);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    std::vector<float> small(2, 1.0F);
    EXPECT_EQ(job.sum(small, "small").status, HVD_OK);
    const auto all = all_histograms(job);
    const hvd_histogram& sizes = all.at("operation_size");
    EXPECT_STREQ(sizes.unit, "bytes");
    EXPECT_EQ(sizes.value_count, 2U);
    EXPECT_EQ(sizes.sum, (4U << 20) + 8);
    EXPECT_EQ(sizes.buckets[22], 1U);
    EXPECT_EQ(sizes.buckets[3], 1U);
    const hvd_histogram& groups = all.at("group_size");
    EXPECT_EQ(groups.value_count, 1U);
    EXPECT_EQ(groups.buckets[22], 1U);
    EXPECT_EQ(all.at("group_operations").sum, 1U);
    EXPECT_EQ(all.at("operation_duration").value_count, 2U);
    double parts = 0;
    for (const char* part : {"group_waited", "group_moved", "group_reduced", "group_copied"}) {
      EXPECT_EQ(all.at(part).value_count, 1U) << part;
      EXPECT_STREQ(all.at(part).unit, "ns");
      parts += static_cast<double>(all.at(part).sum);
    }
    EXPECT_GT(all.at("group_copied").sum, 0U);
    EXPECT_GT(all.at("group_reduced").sum, 0U);
    EXPECT_LE(parts, took.count() + kNsPerMs);
  });
}

TEST(Histograms, TellWhoIsLate) {
  std::atomic<int> waiting{0};
  run_ranks(3, [&waiting](Job& job) {
    std::vector<float> data(1, 1.0F);
    EXPECT_EQ(job.sum(data, "together").status, HVD_OK);
    const auto before = counters_of(job);
    if (job.rank() == 1) {
      while (waiting.load() < 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    hvd_handle* handles[2] = {};
    EXPECT_EQ(job.start_sum(data, named("late"), &handles[0]).status, HVD_OK);
    std::vector<float> other(1, 1.0F);
    EXPECT_EQ(job.start_sum(other, named("late too"), &handles[1]).status, HVD_OK);
    waiting.fetch_add(1);
    for (hvd_handle* handle : handles) EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    const auto after = counters_of(job);
    const auto grown = [&](const char* name) { return after.at(name) - before.at(name); };
    const hvd_histogram spread = all_histograms(job).at("announcement_spread");
    EXPECT_GE(spread.sum, 2 * 100 * kNsPerMs);
    if (job.rank() == 1) {
      EXPECT_EQ(grown("operations_late"), 2);
      // both operations were late at the same time
      EXPECT_GE(grown("late_time"), 100 * kNsPerMs);
      EXPECT_LE(grown("late_time"), static_cast<double>(spread.sum) - 80 * kNsPerMs);
    } else {
      EXPECT_EQ(grown("late_time"), 0);
      EXPECT_GE(grown("missing_ranks_time"), 100 * kNsPerMs);
      EXPECT_GE(all_histograms(job).at("announcement_wait").sum, 2 * 100 * kNsPerMs);
    }
  });
}

TEST(Histograms, DivideBytesByTransportOnOneHost) {
  run_ranks(2, [](Job& job) {
    std::vector<float> data(1 << 20, 1.0F);
    EXPECT_EQ(job.sum(data, "large").status, HVD_OK);
    std::vector<float> small(2, 1.0F);
    EXPECT_EQ(job.sum(small, "small").status, HVD_OK);
    const auto all = counters_of(job);
    EXPECT_GE(all.at("bytes_by_shared_memory"), 2U << 20);
    EXPECT_EQ(all.at("bytes_by_message"), 8);
    EXPECT_EQ(all.at("bytes_by_tcp"), 0);
    EXPECT_EQ(all.at("bytes_by_plugin"), 0);
    EXPECT_EQ(all.at("bytes_by_device"), 0);
    EXPECT_EQ(all.at("restarts"), 0);
  });
}

TEST(Histograms, DivideBytesByTransportBetweenHosts) {
  run_hosts(2, 1, [](Job& job) {
    std::vector<float> data(1 << 20, 1.0F);
    EXPECT_EQ(job.sum(data, "large").status, HVD_OK);
    // each of two hosts sends the other its half of the input and of the result
    EXPECT_EQ(counters_of(job).at("bytes_by_tcp"), 4U << 20);
  });
}

TEST(Histograms, AreFilledWithoutTheFlightRecorder) {
  run_ranks(
      2,
      [](Job& job) {
        std::vector<float> data(1 << 16, 1.0F);
        EXPECT_EQ(job.sum(data, "x").status, HVD_OK);
        const auto all = all_histograms(job);
        EXPECT_EQ(all.at("operation_size").sum, 1U << 18);
        EXPECT_EQ(all.at("operation_duration").value_count, 1U);
        EXPECT_EQ(all.at("queue_wait").value_count, 1U);
        EXPECT_EQ(all.at("group_moved").value_count, 1U);
      },
      [](int) { return Job::Settings{{"flight_recorder", "0"}}; });
}

TEST(Histograms, LeaveOutWhatFailed) {
  run_ranks(2, [](Job& job) {
    std::vector<float> data(static_cast<size_t>(job.rank() + 1), 1.0F);
    EXPECT_EQ(job.sum(data, "differs").status, HVD_ERR_MISMATCH);
    EXPECT_EQ(all_histograms(job).at("operation_size").value_count, 0U);
  });
}

}  // namespace
}  // namespace hvd::testing
