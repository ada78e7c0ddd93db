// SPDX-License-Identifier: Apache-2.0
// From a rendezvous URL to a store, and from a store to a rank.
#pragma once

#include <memory>

#include "rendezvous/store.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {

// `rank` is this process's or -1. "env:" must have been replaced by what the environment says.
Result<std::shared_ptr<Store>> open_store(const Url& url, int rank, int size, Time deadline);

// For processes that do not know their rank: numbers them by arrival. More than `size` arrivals are kInvalidState.
Result<int> rank_by_arrival(Store& store, int size);

}  // namespace hvd::rendezvous
