// SPDX-License-Identifier: Apache-2.0
// The histograms of a context, generated from histograms.def. Threads add in turn, and any thread
// reads: an addition is two loads and two stores without a lock prefix, because the driver makes
// several for each operation. A snapshot is not one instant.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace hvd {

class Histogram {
 public:
  static constexpr size_t kBuckets = 64;

  // Bucket i holds the values of at most 2^i that no bucket before it holds; the last one holds all
  // the rest.
  static constexpr size_t bucket_of(uint64_t value) {
    const auto bits = value <= 1 ? 0U : static_cast<unsigned>(std::bit_width(value - 1));
    return bits < kBuckets ? bits : kBuckets - 1;
  }

  void add(uint64_t value) noexcept {
    raise(sum_, value);
    raise(buckets_[bucket_of(value)], 1);
  }
  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
  uint64_t bucket(size_t index) const { return buckets_[index].load(std::memory_order_relaxed); }

 private:
  static void raise(std::atomic<uint64_t>& number, uint64_t amount) {
    number.store(number.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> sum_{0};
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
};

struct Histograms {
#define HVD_HISTOGRAM(name, unit, help) Histogram name;
#include "base/histograms.def"
};

struct HistogramRow {
  const char* name;
  const char* unit;
  const char* help;
  Histogram Histograms::* member;
};

inline constexpr HistogramRow kHistogramRows[] = {
#define HVD_HISTOGRAM(name, unit, help) {#name, unit, help, &Histograms::name},
#include "base/histograms.def"
};

}  // namespace hvd
