// SPDX-License-Identifier: Apache-2.0
// A job of some of the ranks that were launched: option ranks.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "rendezvous/store.h"

namespace hvd {

// Turns the place among the launched ranks into that among those listed in `ranks` ("0,2,5"; empty: all), numbered in ascending
// order, with a part of the store of its own. An error if this rank is not listed, or a listed one was not launched.
Status take_part(const std::string& ranks, int* rank, int* size, std::shared_ptr<rendezvous::Store>* store);

}  // namespace hvd
