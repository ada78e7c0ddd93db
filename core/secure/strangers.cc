// SPDX-License-Identifier: Apache-2.0
#include "secure/strangers.h"

#include <algorithm>

namespace hvd::secure {

std::optional<Strangers::Victim> Strangers::oldest(const std::string* source, bool credible) const {
  std::optional<Victim> found;
  for (const auto& [id, stranger] : all_) {
    if (stranger.credible != credible || (source != nullptr && stranger.source != *source))
      continue;
    if (!found || stranger.since < found->since) found = Victim{id, stranger.since};
  }
  return found;
}

std::optional<Strangers::Victim> Strangers::first_to_go(const std::string& source) const {
  const std::optional<Victim> incredible = oldest(&source, false);
  return incredible ? incredible : oldest(&source, true);
}

std::optional<Strangers::Victim> Strangers::victim() const {
  if (all_.size() < kMost) return std::nullopt;
  std::map<std::string, size_t> counts;
  for (const auto& [id, stranger] : all_) ++counts[stranger.source];
  return first_to_go(
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first);
}

std::optional<Strangers::Victim> Strangers::excess(const std::string& source, Time now) const {
  const auto count = std::count_if(
      all_.begin(), all_.end(), [&](const auto& entry) { return entry.second.source == source; });
  if (static_cast<size_t>(count) <= kMostOfOneSource) return std::nullopt;
  const std::optional<Victim> first = first_to_go(source);
  return now - first->since >= kGrace ? first : std::nullopt;
}

std::optional<Strangers::Victim> Strangers::least_credible() const {
  return oldest(nullptr, false);
}

std::optional<int> Strangers::overdue(Time now) const {
  for (const auto& [id, stranger] : all_) {
    if (now - stranger.since >= kTime) return id;
  }
  return std::nullopt;
}

Time Strangers::next_overdue() const {
  Time next = kNever;
  for (const auto& [id, stranger] : all_) next = std::min(next, stranger.since + kTime);
  return next;
}

}  // namespace hvd::secure
