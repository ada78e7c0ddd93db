// SPDX-License-Identifier: Apache-2.0
// From a rendezvous URL to a store, and from a store to a rank.
#pragma once

#include <memory>

#include "rendezvous/store.h"
#include "rendezvous/store_settings.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {

// "env:" must have been replaced by what the environment says.
Result<std::shared_ptr<Store>> open_store(const Url& url, const StoreSettings& settings);

// For processes that do not know their rank: numbers them by arrival. More than `size` arrivals are
// kInvalidState.
Result<int> rank_by_arrival(Store& store, int size);

}  // namespace hvd::rendezvous
