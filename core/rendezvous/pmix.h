// SPDX-License-Identifier: Apache-2.0
// The key-value store of launchers that speak PMIx (Open MPI's mpirun, srun --mpi=pmix, jsrun),
// through the libpmix that belongs to the launcher. Loaded at run time; no header of PMIx is
// needed.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/environment.h"
#include "base/status.h"

namespace hvd::rendezvous {

// The process as a client of the PMIx server on its host. A process has a single session, because
// PMIx allows no more: opened once, and ended when the process exits. An MPI of Open MPI 4 that
// starts later joins the session; Open MPI 5 cannot start in a process that has a session.
class PmixSession {
 public:
  // kUnsupported if there is no library, or no server.
  static Result<PmixSession*> open(const Environment& environment);

  // Other ranks read the value from here on. Texts without NUL bytes.
  virtual Status put(const std::string& key, const std::string& value) = 0;
  // Waits until that rank has put it.
  virtual Result<std::string> get(int rank, const std::string& key, Time deadline) = 0;

 protected:
  ~PmixSession() = default;
};

}  // namespace hvd::rendezvous
