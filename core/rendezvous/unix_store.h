// SPDX-License-Identifier: Apache-2.0
// A store for the ranks of one user on one machine, served at an abstract Unix socket: no port, no
// file, no secret. The system tells each end whose process the other one is.
#pragma once

#include <memory>

#include "rendezvous/remote_store.h"
#include "rendezvous/store_settings.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {

// Rank 0 serves, waiting for the name if it is taken; among ranks that do not know their number
// (-1) the first to get it.
Result<std::shared_ptr<RemoteStore>> open_unix_store(const UnixUrl& url,
                                                     const StoreSettings& settings);

}  // namespace hvd::rendezvous
