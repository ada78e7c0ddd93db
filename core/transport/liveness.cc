// SPDX-License-Identifier: Apache-2.0
#include "transport/liveness.h"

#include <algorithm>

namespace hvd::transport {

namespace {

constexpr Duration kLongestInterval = std::chrono::milliseconds(500);
constexpr Duration kShortestInterval = std::chrono::milliseconds(10);

}  // namespace

Liveness::Liveness(const Topology& topology, Duration limit, Time now)
    : topology_(topology),
      limit_(limit),
      interval_(std::clamp(limit / 20, kShortestInterval, kLongestInterval)),
      ranks_(static_cast<size_t>(topology.size())),
      last_tick_(now) {
  const int own_host = topology.host_index(topology.rank());
  for (int rank = 0; rank < topology.size(); ++rank) {
    ranks_[index(rank)] = {topology.host_index(rank) != own_host, false, now, now};
  }
}

Liveness::News Liveness::tick(Time now) {
  // If this process was stopped itself, messages that the others sent meanwhile may still be on
  // their way.
  const bool was_stopped = now - last_tick_ > std::max(limit_ / 4, 2 * interval_);
  last_tick_ = now;
  News news;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& who = ranks_[rank];
    if (!who.watched) continue;
    if (was_stopped) who.heard = now;
    // A little early, so that rounding does not double the pause.
    if (now - who.told >= interval_ - interval_ / 8) news.tell.push_back(static_cast<int>(rank));
    const bool suspicious = now - who.heard >= limit_ / 2;
    if (suspicious && !who.suspected) {
      news.suspects.push_back(
          {static_cast<int>(rank), "nothing heard for " + seconds_text(now - who.heard) + " s"});
    }
    who.suspected = suspicious;
  }
  for (int host = 0; host < topology_.host_count(); ++host) look_at_host(host, now, news);
  return news;
}

void Liveness::look_at_host(int host, Time now, News& news) {
  const std::vector<int>& ranks = topology_.ranks_on(host);
  const auto silent = [&](int rank, Duration limit) {
    return ranks_[index(rank)].watched && now - ranks_[index(rank)].heard >= limit;
  };
  if (std::none_of(ranks.begin(), ranks.end(), [&](int rank) { return silent(rank, limit_); }))
    return;
  for (const int rank : ranks) {
    if (!silent(rank, limit_ - 3 * interval_)) continue;
    news.lost.push_back(
        {rank, "was not heard for " + seconds_text(now - ranks_[index(rank)].heard) + " s"});
    ranks_[index(rank)].watched = false;
  }
}

}  // namespace hvd::transport
