// SPDX-License-Identifier: Apache-2.0
// One rank running conformance vectors through hvd.h.
#pragma once

#include <hvd/hvd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

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
  Rank(hvd_context* context, size_t rank, Report& report) : context_(context), rank_(rank), report_(report) {}

  void run(const Vector& vector, Place place);

 private:
  hvd_op_options options_for(const std::string& name, const Options& given, hvd_process_set* set) const;
  hvd_status submit(const Vector& vector, const Part& part, const Buffers& buffers, const hvd_op_options& options,
                    hvd_handle** handle, hvd_error* error);
  void operate(const Vector& vector, const Part& part, Place place, hvd_process_set* set, const std::string& where);
  void check_failure(const Vector& vector, const Buffers& buffers, hvd_status status, const hvd_error& error,
                     const std::string& where);
  void check_results(const Vector& vector, const Part& part, const Buffers& buffers, hvd_handle* handle,
                     const std::string& where);
  void check_splits(const Part& part, hvd_handle* handle, const std::string& where);
  void check_last_joined(const Vector& vector, hvd_handle* handle, const std::string& where);
  void join(const Vector& vector, hvd_process_set* set, const std::string& where);
  void follow_up(const Vector& vector, const std::string& where);

  hvd_context* context_;
  size_t rank_;
  Report& report_;
};

}  // namespace hvd::conformance
