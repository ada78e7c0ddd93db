/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of cases.h over an MPI. Started by mpirun; arguments as in cases.h. */
#include <mpi.h>

#include "board.h"
#include "cases.h"

static void mpi_allreduce(void* self, float* data, size_t count) {
  (void)self;
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* One blocking call after another. Non-blocking ones and one call over copied-together tensors were
 * slower with Open MPI. */
static void mpi_allreduce_set(void* self, const bench_tensor_set* set, float* const* tensors) {
  for (size_t i = 0; i < set->tensor_count; i++) mpi_allreduce(self, tensors[i], set->elements[i]);
}

static void mpi_collective(void* self, bench_collective kind, const float* send, float* receive,
                           size_t count) {
  int size = *(const int*)self;
  int whole = (int)count;
  int part = whole / size;
  switch (kind) {
    case BENCH_ALLGATHER:
      MPI_Allgather(send, part, MPI_FLOAT, receive, part, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case BENCH_BROADCAST: MPI_Bcast(receive, whole, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    case BENCH_ALLTOALL:
      MPI_Alltoall(send, part, MPI_FLOAT, receive, part, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case BENCH_REDUCESCATTER:
      MPI_Reduce_scatter_block(send, receive, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    default: MPI_Barrier(MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bench_options options = bench_options_parse(argc, argv);
  bench_board* board =
      options.board_path != NULL ? bench_board_open(options.board_path, rank, size) : NULL;
  if (board == NULL) bench_fail("bench_mpi", rank, "cannot open the board; give --board PATH");
  if (options.pin) bench_pin_thread(rank);
  bench_port port = {"open_mpi",        &size,         rank, size, mpi_allreduce,
                     mpi_allreduce_set, mpi_collective};
  bench_run_cases(&port, board, &options);
  bench_board_close(board);
  MPI_Finalize();
  return 0;
}
