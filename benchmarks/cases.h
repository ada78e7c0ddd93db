/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases.h: the cases of the benchmark, run over any library.
 *
 * A program fills a bench_port with its library's operations and calls bench_run_cases: the sizes,
 * the buffers, the checks of the results and the timing are then the same for all. Each case is
 * verified once before it is timed.
 */
#ifndef HVD_BENCHMARKS_CASES_H
#define HVD_BENCHMARKS_CASES_H

#include "board.h"
#include "tensor_sets.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bench_collective {
  BENCH_ALLGATHER,     /* send bytes/size, receive bytes */
  BENCH_BROADCAST,     /* `receive` from rank 0, in place */
  BENCH_ALLTOALL,      /* send bytes, receive bytes */
  BENCH_REDUCESCATTER, /* send bytes, receive bytes/size */
  BENCH_BARRIER,
  BENCH_COLLECTIVES
} bench_collective;

/* Operations complete before they return; a failing one ends the process with a message. */
typedef struct bench_port {
  const char* program;
  void* self;
  int rank;
  int size;
  /* In place, sum. */
  void (*allreduce)(void* self, float* data, size_t count);
  /* The same for each tensor of a set, in the way the library does it best without copying them
   * together. */
  void (*allreduce_set)(void* self, const bench_tensor_set* set, float* const* tensors);
  /* `count` is the elements of the larger buffer. NULL: the program has no such cases. */
  void (*collective)(void* self, bench_collective kind, const float* send, float* receive,
                     size_t count);
} bench_port;

typedef struct bench_options {
  const char* board_path;
  uint64_t budget_ns; /* per case */
  size_t max_bytes;
  int pin;
  int run_sync;
  int run_sets;
  int run_bert;
  int run_collectives;
} bench_options;

/* Reads --board PATH, --budget-ms N, --max-bytes N, --no-pin and --cases
   sync,sets,bert,collectives; other arguments are left to the program. Ends the process with a
   message on a value it does not know. */
bench_options bench_options_parse(int argc, char** argv);

/* The value after `name`, or `fallback`. */
const char* bench_argument(int argc, char** argv, const char* name, const char* fallback);

void bench_run_cases(const bench_port* port, bench_board* board, const bench_options* options);

/* Prints "program: rank R: text" and ends the process. */
__attribute__((noreturn)) void bench_fail(const char* program, int rank, const char* text);

#ifdef __cplusplus
}
#endif
#endif
