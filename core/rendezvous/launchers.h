// SPDX-License-Identifier: Apache-2.0
// The launcher that started this process, read from the environment. All launchers stand in a
// single table, so that a script runs unmodified under any.
#pragma once

#include "rendezvous/env.h"

namespace hvd::rendezvous {

// From the variables of the innermost launcher: horovodrun (or the same variables set by hand),
// torchrun, jsrun, Open MPI, MVAPICH, Flux, PALS, a PMI-1 mpiexec, a Slurm step, a Kubernetes
// indexed job, or plain RANK and WORLD_SIZE, in this order. Without any launcher: rank 0 of 1. The
// variables that a Slurm allocation sets outside a step mean nothing. HOROVOD_RENDEZVOUS alone
// replaces the way to meet of any launcher. kInvalidArgument, with what each launcher's variables
// say, if the innermost set is incomplete or does not fit together, or if RANK and WORLD_SIZE
// contradict it.
Result<Place> find_place(const Environment& environment);

}  // namespace hvd::rendezvous
