// SPDX-License-Identifier: Apache-2.0
// Which data plane the options ask for, and what the plug-ins of this installation can do.
#pragma once

#include <string_view>

#include "backend/plugin/chosen_factory.h"
#include "base/environment.h"
#include "base/options.h"

namespace hvd {

backend::plugin::Choice choose_backend(const Options& options);

// "gloo" and "mpi": the plug-in is there and its library loads. "mpi.initialized": somebody has started MPI in this process.
// "mpi.threads": and it may be called from several threads at once. HOROVOD_BACKEND_PATH counts.
bool has_backend_feature(std::string_view name, const Environment& environment);

}  // namespace hvd
