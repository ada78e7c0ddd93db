// SPDX-License-Identifier: Apache-2.0
// Ranks on other hosts whose connection has closed, while ranks of their own host are still there.
//
// Those see how a process ended, and say so; from afar only the connection is seen. So that all survivors tell the same cause, whoever
// is far away waits a moment for the word of the host. Where nobody of it is left, there is nothing to wait for.
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
  // One whose time is over or for which `settled(rank)`. Whoever closed later, on another host than the first, may have given up
  // because of that one, and is not to blame before it is known. Of one host the lowest rank, so that all survivors blame the same.
  template <class Settled, class SameHost>
  std::optional<Suspicion> take(Time now, Settled&& settled, SameHost&& same_host) {
    std::optional<Suspicion> lowest;
    for (const Suspicion& one : all_) {
      if (!same_host(one.rank, all_.front().rank) || (now < one.until && !settled(one.rank))) continue;
      if (!lowest || one.rank < lowest->rank) lowest = one;
    }
    if (lowest) forget(lowest->rank);
    return lowest;
  }
  void forget(int rank);
  // Its timer has gone off.
  void on_timer();

 private:
  Events& events_;
  Fd timer_;
  std::vector<Suspicion> all_;  // in the order in which they came
};

}  // namespace hvd::transport
