// SPDX-License-Identifier: Apache-2.0
// A job of some of the ranks that were launched: option ranks.
#pragma once

#include <string>

#include "base/status.h"

namespace hvd::rendezvous {

struct RankSubset {
  int rank = 0;      // among the listed ones, in ascending order
  int size = 1;      // how many are listed
  std::string name;  // differs for lists of different ranks; empty: all ranks
};

// The place of launched rank `rank` of `size` among those that `ranks` lists ("0,2,5"; empty: all).
// An error if this rank is not listed, or a listed one was not launched.
Result<RankSubset> find_rank_subset(const std::string& ranks, int rank, int size);

}  // namespace hvd::rendezvous
