// SPDX-License-Identifier: Apache-2.0
// What the system allows this process.
#pragma once

#include <cstdint>

namespace hvd {

// How many more descriptors this process may open, and how many it may have in all; -1 where that
// is not known or not limited to a number that matters.
int64_t free_descriptors(int64_t* limit);

}  // namespace hvd
