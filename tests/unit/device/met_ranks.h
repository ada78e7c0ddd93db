// SPDX-License-Identifier: Apache-2.0
// Ranks whose devices a library may connect, and what they say of it.
#pragma once

#include <mutex>

#include "collective_checks.h"

namespace hvd::testing {

// Log lines of one component of all ranks.
class Lines {
 public:
  explicit Lines(std::string component) : component_(std::move(component)) {}
  static void take(void* self, hvd_log_level, int32_t rank, const char* component,
                   const char* message) {
    auto* lines = static_cast<Lines*>(self);
    if (lines->component_ != component) return;
    std::lock_guard<std::mutex> lock(lines->mutex_);
    lines->all_.push_back(std::to_string(rank) + ": " + message);
  }
  std::vector<std::string> sorted() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> all = all_;
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  const std::string component_;
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

// One operation after which the members of the set have met: the first one on devices always goes
// through host memory.
inline void meet(const Job& job, Device& device) {
  void* buffer = device.filled(values(10, job.rank()), 0);
  EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, buffer, 10, buffer, 10)).status,
            HVD_OK);
  EXPECT_EQ(device.read(buffer, 10), Floats(10, sum_of(job.size())));
}

// With a log of what is said of devices.
inline std::vector<std::string> run_logged(int size, const std::function<void(Job&)>& body,
                                           const Job::Settings& more = {}) {
  Lines lines("device");
  const std::string url = fresh_url();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Job::Settings settings = more;
      settings.emplace_back("log_level", "info");
      Job job;
      ASSERT_EQ(job.open(url, rank, size, settings, &Lines::take, &lines).status, HVD_OK);
      body(job);
      EXPECT_EQ(job.barrier("test:end").status, HVD_OK);
      EXPECT_EQ(job.close().status, HVD_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return lines.sorted();
}

}  // namespace hvd::testing
