// SPDX-License-Identifier: Apache-2.0
// The place of this process in its job, as the launcher wrote it into the environment.
#pragma once

#include <string>

#include "base/environment.h"
#include "base/status.h"

namespace hvd::rendezvous {

struct Place {
  int rank = 0;
  int size = 1;
  std::string url;   // empty: a job of one rank needs no store
  std::string host;  // HOROVOD_HOSTNAME, or empty
};

// From HOROVOD_RANK, HOROVOD_SIZE and HOROVOD_RENDEZVOUS. None of them set (or all empty): rank 0 of 1. Some of them, or
// values that do not fit together: kInvalidArgument naming the variables and the values.
Result<Place> place_from_environment(const Environment& environment);

}  // namespace hvd::rendezvous
