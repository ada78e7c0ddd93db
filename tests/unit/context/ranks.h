// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of this process, over hvd.h.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "process/job.h"

namespace hvd::testing {

inline std::string fresh_url() {
  static std::atomic<int> count{0};
  return "mem://test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

// Runs `body` on every rank of a new job and closes it in order.
inline void run_ranks(
    int size, const std::function<void(Job&)>& body,
    const std::function<Job::Settings(int rank)>& settings = [](int) { return Job::Settings(); }) {
  const std::string url = fresh_url();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Job job;
      const Failure opened = job.open(url, rank, size, settings(rank));
      ASSERT_EQ(opened.status, HVD_OK) << opened.message;
      body(job);
      const Failure ended = job.barrier("test:end");
      EXPECT_EQ(ended.status, HVD_OK) << ended.message;
      EXPECT_EQ(job.close().status, HVD_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The same with ranks that take one another's host for another one.
inline void run_hosts(int hosts, int per_host, const std::function<void(Job&)>& body) {
  run_ranks(hosts * per_host, body, [per_host](int rank) {
    return Job::Settings{{"hostname", "host" + std::to_string(rank / per_host)}};
  });
}

// Of this rank.
inline double metric_of(Job& job, const std::string& name) {
  std::vector<hvd_metric> metrics(200);
  size_t count = metrics.size();
  EXPECT_EQ(hvd_metrics_snapshot(job.get(), metrics.data(), &count, nullptr), HVD_OK);
  const auto end = metrics.begin() + static_cast<std::ptrdiff_t>(count);
  const auto found =
      std::find_if(metrics.begin(), end, [&](const hvd_metric& one) { return one.name == name; });
  EXPECT_TRUE(found != end) << name;
  return found == end ? 0 : found->value;
}

}  // namespace hvd::testing
