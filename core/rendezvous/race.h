// SPDX-License-Identifier: Apache-2.0
// Finds the server of a job behind one of several addresses: tries all of them, again and again
// until the deadline. The first server that welcomes this rank wins; others that answer there just
// lose.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "rendezvous/attempt.h"
#include "rendezvous/target.h"

namespace hvd::rendezvous {

class Race {
 public:
  // Says which addresses to try now. Asked at the start and, while nothing else is to be done,
  // again every second, because names may become known. An error ends the race unless it is kIo,
  // which is about a name that may be known later.
  using FindTargets = std::function<Result<std::vector<Target>>()>;

  Race(FindTargets find, ClientInfo who) : find_(std::move(find)), who_(std::move(who)) {}

  // kTimeout at the deadline, saying how each address went.
  Result<Channel> run(Time deadline);

 private:
  struct Lane {
    Target target;
    std::optional<Attempt> attempt;
    Time next{};       // start of the next attempt, or end of this one
    Duration pause{};  // after this attempt
    std::string outcome;
  };

  Status find_targets();
  // True if the lane has won, or if its `status` ends the race.
  bool advance(Lane& lane, Status& status);
  void wait(Time deadline) const;
  Status nobody(Duration waited) const;

  const FindTargets find_;
  const ClientInfo who_;
  std::list<Lane> lanes_;  // a list, whose elements stay in place: attempts point to their targets
  Time find_again_{};
  std::string unknown_;  // why some targets could not be found
};

}  // namespace hvd::rendezvous
