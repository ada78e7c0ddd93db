// SPDX-License-Identifier: Apache-2.0
// Rendezvous by means of the launcher: rank 0 serves a store and hands the store's address and a fresh secret to the others by
// MPI, PMIx or PMI. So users of mpirun and srun need no secret of their own.
#pragma once

#include <memory>
#include <string>

#include "base/environment.h"
#include "base/options.h"
#include "context/protection.h"
#include "rendezvous/env.h"
#include "rendezvous/store.h"
#include "rendezvous/store_settings.h"

namespace hvd {

struct Bootstrap {
  std::shared_ptr<rendezvous::Store> store;
  Protection protection;
  std::string url;  // without the secret
};

// A collective call, for the ways kMpi, kPmix and kPmi. Launchers pass a text on only once: later contexts of the process meet
// at the same address with the same secret.
Result<Bootstrap> meet_through_launcher(const rendezvous::Place& place, const Options& options, const Environment& environment,
                                        const Protection& protection, const rendezvous::StoreSettings& settings);

}  // namespace hvd
