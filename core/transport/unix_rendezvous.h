// SPDX-License-Identifier: Apache-2.0
// How the processes of one host come to hold the same memfd and each other's bells and pidfds:
// through an abstract Unix socket of the host's first rank, with a random name and tokens that only
// ranks of the job know.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "transport/lost_member.h"

namespace hvd::transport {

struct LocalRendezvous {
  Fd memory;
  std::vector<Fd> bells;   // per member
  std::vector<Fd> pidfds;  // per member; empty: none, or the member is in this process
  // per member; the first member has one to each other, the others one to it
  std::vector<Fd> sockets;
};

// Where to meet; goes through the store as text.
struct RendezvousPlace {
  std::string name;    // abstract socket name without the leading zero byte
  std::string knock;   // the proof of a member
  std::string answer;  // the proof of the first member

  std::string text() const { return name + " " + knock + " " + answer; }
  static Result<RendezvousPlace> make();
  static Result<RendezvousPlace> parse(const std::string& text);
};

struct RendezvousOptions {
  std::vector<int> ranks;  // on this host; ranks[0] leads
  int me = 0;              // index in ranks
  int job_size = 1;
  Time started = {};
  Time deadline = kNever;
  LostMember lost;
};

// The first member's side, in two steps because the socket must exist before its name is published.
// After a time-out `missing` has the ranks that have not come.
Result<Fd> listen_at(const RendezvousPlace& place, int members);
Result<LocalRendezvous> lead_rendezvous(Fd listener, const RendezvousPlace& place,
                                        const RendezvousOptions& options, Fd memory,
                                        std::vector<int>& missing);
// Every other member's side.
Result<LocalRendezvous> join_rendezvous(const RendezvousPlace& place,
                                        const RendezvousOptions& options);

// `init: waited 30 s; missing ranks 2 5 of 8`
Status ranks_missing(Time started, const std::vector<int>& missing, int size);

}  // namespace hvd::transport
