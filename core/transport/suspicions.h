// SPDX-License-Identifier: Apache-2.0
// Ranks on other hosts whose connection has closed, while ranks of their own host are still there.
//
// The ranks of that host see how a process ended, and say so; from afar only the connection is
// seen. So that all survivors tell the same cause, a rank that is far away waits a moment for the
// word of that host. Where no rank of that host is left, there is nothing to wait for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "transport/events.h"

namespace hvd::transport {

class Suspicions {
 public:
  // Longer than ranks of the same host may take to find out; see Watch.
  static constexpr Duration kPatience = std::chrono::seconds(3);

  struct Suspicion {
    int rank;
    std::string cause;
    Time until;
  };

  // `events` outlives them.
  explicit Suspicions(Events& events) : events_(events) {}

  Status hold(int rank, std::string cause, Time until);
  bool has(int rank) const;
  bool empty() const { return all_.empty(); }
  // Takes a suspicion whose time is over or for which `settled(rank)`. A rank that closed later, on
  // another host than the first, may have given up because of the first rank, and is not to blame
  // before that is known. Takes the lowest rank of a host, so that all survivors blame the same.
  template <class Settled, class SameHost>
  std::optional<Suspicion> take(Time now, Settled&& settled, SameHost&& same_host) {
    std::optional<Suspicion> lowest;
    for (const Suspicion& one : all_) {
      if (!same_host(one.rank, all_.front().rank) || (now < one.until && !settled(one.rank)))
        continue;
      if (!lowest || one.rank < lowest->rank) lowest = one;
    }
    if (lowest) forget(lowest->rank);
    return lowest;
  }
  void forget(int rank);
  // The timer has gone off.
  void on_timer();

 private:
  Events& events_;
  Fd timer_;
  std::vector<Suspicion> all_;  // in the order in which they came
};

}  // namespace hvd::transport
