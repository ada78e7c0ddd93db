// SPDX-License-Identifier: Apache-2.0
// What a process started by mpirun, or by srun with PMIx, can learn from MPI before any connection
// of ours exists.
//
//   Result<MpiLaunch> mpi = MpiLaunch::start("", false);  // starts MPI; collective
//   std::string url = mpi.value().rank() == 0 ? make_meeting() : "";
//   HVD_TRY(mpi.value().broadcast(&url, 0));              // now all have rank 0's text
#pragma once

#include <string>

#include "backend/plugin/library.h"

namespace hvd::backend::plugin {

class MpiLaunch {
 public:
  // `folder`: option backend_path. `one_thread`: option mpi_threads_disable. Fails at once, without
  // starting MPI, where there is no plug-in, no Open MPI, or an MPI that has been finalised; the
  // text says which.
  static Result<MpiLaunch> start(const std::string& folder, bool one_thread);

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  int local_rank() const { return place_.local_rank; }
  int local_size() const { return place_.local_size; }

  // Replaces *text by that of `root` everywhere. Blocks until all processes of the launch have
  // come.
  Status broadcast(std::string* text, int root) const;

 private:
  MpiLaunch(Library library, const LibrarySettings& settings)
      : library_(std::move(library)), settings_(settings) {}
  Library library_;
  LibrarySettings settings_;
  Launch place_{};
};

}  // namespace hvd::backend::plugin
