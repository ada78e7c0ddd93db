// SPDX-License-Identifier: Apache-2.0
// Finds out which ranks are missing when the time to meet is up. A rank that waits for a dead rank
// at one place is missed itself at another: so each rank that gives up says in the store for whom
// it has waited, and blames nobody who has said so.
#pragma once

#include <vector>

#include "base/status.h"
#include "rendezvous/store.h"
#include "transport/peer_info.h"

namespace hvd::transport {

// Tells the others that this rank is alive and gives up for the reason `why`: it has waited for
// `awaited` (ranks of the job) in vain, or, where `awaited` is empty, has failed by itself. A
// failure to tell is not reported.
void tell_waited(rendezvous::Store& store, const PeerTable& met, int rank,
                 const std::vector<int>& awaited, const Status& why);

// The error of a rank that has waited for `awaited` in vain and would report `why`. Tells the
// others, gives them a second to tell the same, and names the ranks that have told nothing, of
// those it awaited and of those that they awaited. Where these are the awaited ones themselves the
// error is `why`; where all have told something it is `why` and what a rank says that has failed
// for another reason, or else the first awaited rank.
Status missing_after_all(rendezvous::Store& store, const PeerTable& met,
                         const FabricOptions& options, const std::vector<int>& awaited,
                         const Status& why);

// The same with `init: waited 30 s; missing ranks 2 5 of 8`.
Status missing_after_all(rendezvous::Store& store, const PeerTable& met,
                         const FabricOptions& options, const std::vector<int>& awaited);

}  // namespace hvd::transport
