// SPDX-License-Identifier: Apache-2.0
// A process that mpirun starts: learns its place from MPI and takes over a text from rank 0.
//
//   launch FOLDER ONE_THREAD      the folder of the plug-ins
//                                 1: MPI may be called from one thread only
#include <cstdio>
#include <cstdlib>
#include <string>

#include "backend/plugin/mpi_launch.h"

int main(int argc, char** argv) {
  using hvd::backend::plugin::MpiLaunch;
  if (argc != 3) return 2;
  const hvd::Result<MpiLaunch> mpi = MpiLaunch::start(argv[1], argv[2][0] == '1');
  if (!mpi.ok()) {
    std::fprintf(stderr, "launch: %s\n", mpi.status().message().c_str());
    return 1;
  }
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{70000}}) {
    const std::string wanted(bytes, 'x');
    std::string text = mpi.value().rank() == 0 ? wanted : "to be replaced";
    if (const hvd::Status status = mpi.value().broadcast(&text, 0);
        !status.ok() || text != wanted) {
      std::fprintf(stderr, "broadcast of %zu bytes: %s, received %zu\n", bytes,
                   status.message().c_str(), text.size());
      return 1;
    }
  }
  std::printf("rank %d of %d, local %d of %d\n", mpi.value().rank(), mpi.value().size(),
              mpi.value().local_rank(), mpi.value().local_size());
  return 0;
}
