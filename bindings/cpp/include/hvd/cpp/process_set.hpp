// SPDX-License-Identifier: Apache-2.0
// Some of the ranks of a job.
#pragma once

#include <hvd/hvd.h>

#include <memory>
#include <utility>
#include <vector>

#include "call.hpp"

namespace hvd::inline v1 {

namespace detail {

struct FreeProcessSet {
  void operator()(hvd_process_set* set) const { hvd_process_set_free(set); }
};

}  // namespace detail

// A reference to a process set, which may outlive the context.
class ProcessSet {
 public:
  // Takes the reference over.
  explicit ProcessSet(hvd_process_set* set) : set_(set) {}

  int id() const { return hvd_process_set_id(set_.get()); }  // -1 after destroy
  // this rank's place in the set, -1 if no member
  int rank() const { return hvd_process_set_rank(set_.get()); }
  int size() const { return hvd_process_set_size(set_.get()); }
  bool included() const { return rank() >= 0; }
  Expected<std::vector<std::int32_t>> try_ranks() const {
    return detail::read_list<std::int32_t>(
        [this](std::int32_t* ranks, std::size_t* count, hvd_error* error) {
          return hvd_process_set_ranks(set_.get(), ranks, count, error);
        });
  }
  std::vector<std::int32_t> ranks() const { return try_ranks().value(); }

  // When each member announced the operation with that `use` of its hvd_record, in nanoseconds of
  // CLOCK_MONOTONIC, 0 for a member that has not. The lowest rank of the set knows.
  Expected<std::vector<std::int64_t>> try_arrivals(std::uint64_t use) const {
    return detail::read_list<std::int64_t>(
        [this, use](std::int64_t* times, std::size_t* count, hvd_error* error) {
          return hvd_record_arrivals(set_.get(), use, times, count, error);
        });
  }
  std::vector<std::int64_t> arrivals(std::uint64_t use) const { return try_arrivals(use).value(); }

  // Ends the set; collective over the whole job. Without it the set goes on when this object ends.
  Expected<void> try_destroy() {
    auto ended = detail::checked(
        [this](hvd_error* error) { return hvd_process_set_destroy(set_.get(), error); });
    if (ended) (void)set_.release();
    return ended;
  }
  void destroy() { try_destroy().value(); }

  hvd_process_set* raw() const { return set_.get(); }

 private:
  std::unique_ptr<hvd_process_set, detail::FreeProcessSet> set_;
};

}  // namespace hvd::inline v1
