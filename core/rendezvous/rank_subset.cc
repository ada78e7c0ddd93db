// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/rank_subset.h"

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <set>
#include <span>

#include "base/hash.h"

namespace hvd::rendezvous {
namespace {

Status refuse(const std::string& what) {
  return Status(Code::kInvalidArgument, "init: option ranks: " + what);
}

Result<std::set<int>> read_ranks(const std::string& text, int size) {
  std::set<int> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int rank = -1;
    const auto [after, error] = std::from_chars(at, end, rank);
    if (error != std::errc{} || (after != end && *after != ','))
      return refuse("\"" + text + "\" is no list of ranks like 0,2,5");
    if (rank < 0 || rank >= size) {
      return refuse("rank " + std::to_string(rank) + " was not launched; there are 0 to " +
                    std::to_string(size - 1));
    }
    if (!ranks.insert(rank).second)
      return refuse("rank " + std::to_string(rank) + " is listed twice");
    if (after == end) return ranks;
    at = after + 1;
  }
}

}  // namespace

Result<RankSubset> find_rank_subset(const std::string& text, int rank, int size) {
  if (text.empty()) return RankSubset{rank, size, ""};
  Result<std::set<int>> read = read_ranks(text, size);
  if (!read.ok()) return read.status();
  const std::set<int>& ranks = read.value();
  const auto mine = ranks.find(rank);
  if (mine == ranks.end())
    return refuse("this is rank " + std::to_string(rank) + ", which " + text + " does not list");
  std::string list;
  for (const int member : ranks) list += std::to_string(member) + ",";
  char name[32];
  std::snprintf(name, sizeof name, "part-%016" PRIx64,
                fingerprint(std::as_bytes(std::span(list))).high);
  return RankSubset{static_cast<int>(std::distance(ranks.begin(), mine)),
                    static_cast<int>(ranks.size()), name};
}

}  // namespace hvd::rendezvous
