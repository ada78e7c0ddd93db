// SPDX-License-Identifier: Apache-2.0
// Which data plane the options ask for, and what the plug-ins of this installation can do.
#pragma once

#include <memory>
#include <string_view>

#include "backend/device_comm.h"
#include "backend/plugin/chosen_factory.h"
#include "base/environment.h"
#include "base/options.h"
#include "rendezvous/bootstrap.h"

namespace hvd {

backend::plugin::Choice choose_backend(const Options& options);
// Chooses the library for tensors on devices; each set looks for that library when the first such
// tensor comes.
std::unique_ptr<backend::DeviceCommFactory> choose_device_comms(const Options& options,
                                                                const Topology& topology);

// How a launch by MPI passes rank 0's text on, before any connection of ours exists.
rendezvous::MpiBroadcast broadcast_by_mpi(const Options& options);

// "gloo", "mpi" or the name of any other plug-in: the plug-in is there and the plug-in's library
// loads. "mpi.initialized": somebody has started MPI in this process. "mpi.threads": in addition,
// MPI may be called from several threads at once. "nccl": the library NCCL loads.
// HOROVOD_BACKEND_PATH and HOROVOD_NCCL_LIBRARY count.
bool has_backend_feature(std::string_view name, const Environment& environment);

}  // namespace hvd
