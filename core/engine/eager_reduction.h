// SPDX-License-Identifier: Apache-2.0
// The arithmetic of operations that are so small that the coordinator reduces them itself.
#pragma once

#include <span>

#include "negotiation/signature.h"

namespace hvd::engine {

// The same bits as a collective: prescale, reduction in member order, first of each host if there
// are `hosts`, postscale. nullptr sources contribute nothing.
void reduce_eagerly(const negotiation::Signature& signature, std::span<const int> hosts,
                    std::span<const std::byte* const> sources, std::span<std::byte> out);

}  // namespace hvd::engine
