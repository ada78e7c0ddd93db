// SPDX-License-Identifier: Apache-2.0
// Rendezvous by means of the launcher: rank 0 serves a store and hands the store's address and a
// fresh secret to the others by MPI, PMIx or PMI. So users of mpirun and srun need no secret of
// their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/environment.h"
#include "rendezvous/env.h"
#include "rendezvous/store.h"
#include "rendezvous/store_settings.h"
#include "secure/protection.h"

namespace hvd::rendezvous {

struct Bootstrap {
  std::shared_ptr<Store> store;
  secure::Protection protection;
  std::string url;  // without the secret
};

// Replaces the text by that of rank 0 on every rank, by MPI. MPI is a backend, which a rendezvous
// may not know, so the caller hands the function in. Ranks that do not come are waited for without
// a limit.
using MpiBroadcast = std::function<Status(const Place& place, std::string* text)>;

// A collective call, for the ways kMpi, kPmix and kPmi. Launchers pass a text on only once: later
// contexts of the process meet at the same address with the same secret.
Result<Bootstrap> meet_through_launcher(const Place& place, const Environment& environment,
                                        const secure::Protection& protection,
                                        const StoreSettings& settings,
                                        const MpiBroadcast& broadcast_by_mpi);

}  // namespace hvd::rendezvous
