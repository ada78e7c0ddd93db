// SPDX-License-Identifier: Apache-2.0
// The ranks of one job as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <memory>

#include "process/launcher.h"

namespace hvd::testing {

class Team {
 public:
  // Each rank gets `shared`; `of_rank(r)` adds its own arguments.
  Team(const std::string& part, int size, std::vector<std::string> shared = {},
       const std::vector<std::vector<std::string>>& own = {}, int absent = -1) {
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::string> arguments{part, "rank=" + std::to_string(rank),
                                         "size=" + std::to_string(size),
                                         "folder=" + folder_.path()};
      arguments.insert(arguments.end(), shared.begin(), shared.end());
      if (static_cast<size_t>(rank) < own.size()) {
        const auto& mine = own[static_cast<size_t>(rank)];
        arguments.insert(arguments.end(), mine.begin(), mine.end());
      }
      ranks_.push_back(rank == absent ? nullptr : std::make_unique<Process>(arguments));
    }
  }
  int size() const { return static_cast<int>(ranks_.size()); }
  Process& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  bool present(int rank) const { return ranks_[static_cast<size_t>(rank)] != nullptr; }

  // Every rank says that all went well, and ends in order.
  void expect_good(int64_t timeout_ns = 15'000'000'000) {
    for (int rank = 0; rank < size(); ++rank) {
      EXPECT_EQ((*this)[rank].expect("good", timeout_ns), "good")
          << "rank " << rank << ": " << (*this)[rank].said();
      EXPECT_EQ((*this)[rank].wait(), 0) << "rank " << rank;
    }
  }

 private:
  Folder folder_;
  std::vector<std::unique_ptr<Process>> ranks_;
};

}  // namespace hvd::testing
