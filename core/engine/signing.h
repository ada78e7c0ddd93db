// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/operation.h"

namespace hvd::engine {

// Writes the signature, which the coordinator compares, and the payload of an operation that is
// small enough for its payload to travel with the announcement.
void sign(Operation& operation);

}  // namespace hvd::engine
