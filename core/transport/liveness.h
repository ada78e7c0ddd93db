// SPDX-License-Identifier: Apache-2.0
// Which ranks on other hosts have gone silent. Pure: told what was heard and what time it is.
//
// Every rank lets every other hear something at least each interval(). Whole hosts fall silent
// together (a cable, a power cut), a moment apart; so that all survivors blame the same rank, the
// lowest of a host's silent ranks stands for it.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "topology/topology.h"

namespace hvd::transport {

class Liveness {
 public:
  // Silence of `limit` means dead, half of it is suspicious.
  Liveness(const Topology& topology, Duration limit, Time now);

  // How often tick() is to be called.
  Duration interval() const { return interval_; }

  void heard(int rank, Time now) { ranks_[index(rank)].heard = now; }
  void told(int rank, Time now) { ranks_[index(rank)].told = now; }
  // The rank has left or is known to be lost.
  void forget(int rank) { ranks_[index(rank)].watched = false; }

  struct Silence {
    int rank;
    std::string cause;
  };
  struct News {
    std::vector<int> tell;          // ranks that have heard nothing from this one for an interval
    std::vector<Silence> suspects;  // each once per silence
    std::vector<Silence> lost;      // the first of each host stands for it
  };
  News tick(Time now);

 private:
  struct Rank {
    bool watched = false;
    bool suspected = false;
    Time heard;
    Time told;
  };
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  void look_at_host(int host, Time now, News& news);

  const Topology topology_;
  const Duration limit_;
  const Duration interval_;
  std::vector<Rank> ranks_;
  Time last_tick_;
};

}  // namespace hvd::transport
