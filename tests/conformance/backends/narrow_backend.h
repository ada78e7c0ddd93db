// SPDX-License-Identifier: Apache-2.0
// What differs between the narrow plug-in that knows memory of the host only, and the one that is
// given memory of the stand-in's devices as well.
#pragma once

#include <cstddef>

#include "backend/plugin/plugin.h"

namespace narrow {

extern const char kName[];  // of a plug-in that the engine knows
// Where the bytes are that programs see there.
std::byte* find(const void* memory);
// Whether it is to be done with a device if it is on one.
bool serves(const hvd::backend::plugin::Request& request);
// Whether the test wants it to fail.
bool fails();
int32_t takes_device_memory(const hvd::backend::plugin::Settings* settings,
                            hvd::backend::plugin::Text why);

}  // namespace narrow
