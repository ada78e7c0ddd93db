// SPDX-License-Identifier: Apache-2.0
// One rank running conformance vectors through a port.
#pragma once

#include <hvd/hvd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

#include "port.h"
#include "vectors.h"

namespace hvd::conformance {

enum class Place { kGiven, kLibrary, kInPlace };
inline constexpr Place kPlaces[] = {Place::kGiven, Place::kLibrary, Place::kInPlace};
inline constexpr int64_t kSecond = 1'000'000'000;

bool possible(const Vector& vector, const std::string& op, Place place);

// Collects failures of all ranks of a world.
class Report {
 public:
  void fail(const std::string& where, const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++failures_;
    if (failures_ <= 40) std::fprintf(stderr, "%s: %s\n", where.c_str(), what.c_str());
  }
  void ran() { ++runs_; }
  int failures() const { return failures_; }
  int runs() const { return runs_; }

 private:
  std::mutex mutex_;
  std::atomic<int> failures_{0};
  std::atomic<int> runs_{0};
};

struct Buffers;

// One rank of a world.
class Rank {
 public:
  Rank(Port& port, size_t rank, Report& report) : port_(port), rank_(rank), report_(report) {}

  void run(const Vector& vector, Place place);

 private:
  void operate(const Vector& vector, const Part& part, Place place, const std::string& where);
  void check_failure(const Vector& vector, const Buffers& buffers, const Outcome& outcome,
                     const std::string& where);
  void check_results(const Vector& vector, const Part& part, const Request& request,
                     const Outcome& outcome, const std::string& where);
  void check_last_joined(const Vector& vector, const Outcome& outcome, const std::string& where);
  void join(const Vector& vector, const std::string& where);
  void follow_up(const Vector& vector, const std::string& where);

  Port& port_;
  size_t rank_;
  Report& report_;
};

}  // namespace hvd::conformance
