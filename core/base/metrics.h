// SPDX-License-Identifier: Apache-2.0
// The counters of a context, generated from metrics.def. Any thread may count and read. The
// counters are independent: a snapshot is not one instant.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hvd {

struct Metrics {
#define HVD_METRIC(name, unit, help) std::atomic<uint64_t> name{0};
#include "base/metrics.def"
};

inline void count(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}
inline void uncount(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.fetch_sub(amount, std::memory_order_relaxed);
}

struct MetricRow {
  const char* name;
  const char* unit;
  const char* help;
  std::atomic<uint64_t> Metrics::* member;

  uint64_t value(const Metrics& metrics) const {
    return (metrics.*member).load(std::memory_order_relaxed);
  }
};

inline constexpr MetricRow kMetricRows[] = {
#define HVD_METRIC(name, unit, help) {#name, unit, help, &Metrics::name},
#include "base/metrics.def"
};

}  // namespace hvd
