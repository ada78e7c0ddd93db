// SPDX-License-Identifier: Apache-2.0
#include "transport/missing.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "transport/unix_rendezvous.h"

namespace hvd::transport {
namespace {

// All ranks have the same limit but have not begun at the same moment.
constexpr Duration kGrace = std::chrono::seconds(1);

std::string awaited_key(int rank) { return "waited/" + std::to_string(rank); }
std::string reason_key(int rank) { return awaited_key(rank) + "/why"; }

std::string list_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += std::to_string(rank) + " ";
  return text;
}

std::vector<int> parse_list(const std::string& text) {
  std::istringstream in(text);
  std::vector<int> ranks;
  for (int rank = 0; in >> rank;) ranks.push_back(rank);
  return ranks;
}

// A message without its "init: ".
std::string without_prefix(const Status& why) {
  const std::string prefix = "init: ";
  return why.message().rfind(prefix, 0) == 0 ? why.message().substr(prefix.size()) : why.message();
}

}  // namespace

void tell_waited(rendezvous::Store& store, const PeerTable& met, int rank,
                 const std::vector<int>& awaited, const Status& why) {
  publish_verdict(store, met, reason_key(rank), why);
  (void)store.set(met.prefix + awaited_key(rank), list_text(awaited));
}

Status missing_after_all(rendezvous::Store& store, const PeerTable& met,
                         const FabricOptions& options, const std::vector<int>& awaited,
                         const Status& why) {
  tell_waited(store, met, options.rank, awaited, why);
  const Time until = now() + kGrace;
  std::vector<int> silent;
  std::vector<int> failed;  // by themselves: they have waited for nobody
  std::vector<int> asked = awaited;
  for (size_t i = 0; i < asked.size(); ++i) {
    const int rank = asked[i];
    const Result<std::string> told =
        rank == options.rank ? std::string() : store.get(met.prefix + awaited_key(rank), until);
    const std::vector<int> blamed = told.ok() ? parse_list(told.value()) : std::vector<int>();
    if (!told.ok()) silent.push_back(rank);
    if (told.ok() && blamed.empty() && rank != options.rank) failed.push_back(rank);
    for (const int other : blamed) {
      if (std::find(asked.begin(), asked.end(), other) == asked.end()) asked.push_back(other);
    }
  }
  std::sort(silent.begin(), silent.end());
  if (silent == awaited) return why;
  if (!silent.empty()) return ranks_missing(met.started, silent, options.size);
  const int teller = failed.empty() ? awaited.front() : failed.front();
  const Status said = verdict_or(store, met, reason_key(teller), why);
  return Status(why.code(), why.message() + "; rank " + std::to_string(teller) +
                                " says: " + without_prefix(said))
      .with_rank(teller);
}

Status missing_after_all(rendezvous::Store& store, const PeerTable& met,
                         const FabricOptions& options, const std::vector<int>& awaited) {
  return missing_after_all(store, met, options, awaited,
                           ranks_missing(met.started, awaited, options.size));
}

}  // namespace hvd::transport
