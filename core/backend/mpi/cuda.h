// SPDX-License-Identifier: Apache-2.0
// Whether the process's Open MPI reads and writes memory of CUDA devices.
#pragma once

#include <string>

#include "backend/mpi/api.h"

namespace hvd::backend::mpi {

// Empty if it says so in every way that it has; else how it does not.
std::string why_not_cuda_aware(const Api& api);

}  // namespace hvd::backend::mpi
