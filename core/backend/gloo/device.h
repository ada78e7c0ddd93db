// SPDX-License-Identifier: Apache-2.0
// The network interface that Gloo uses.
#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <string>

#include "backend/plugin/plugin.h"

namespace hvd::backend::gloo {

// The device of an address, that is a listening socket and a thread, for all groups of the process
// there. Null with the reason in `problem` if there is no such interface or address.
std::shared_ptr<::gloo::transport::Device> open_device(const plugin::Settings& settings,
                                                       std::string* problem);

}  // namespace hvd::backend::gloo
