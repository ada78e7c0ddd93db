/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h: what the ranks of a benchmark share beside the library under test: a barrier and a table
 * of timestamps.
 *
 * Every program measured here, whatever library it uses, meets at this barrier and writes its
 * timestamps into this table, so that all of them are timed by the same code and none pays for its
 * own library's barrier. The table lives in a mapped file; CLOCK_MONOTONIC is the same clock in
 * every process of a host. Also built as libhvd_bench_board.so for the Python programs.
 */
#ifndef HVD_BENCHMARKS_BOARD_H
#define HVD_BENCHMARKS_BOARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_API __attribute__((visibility("default")))

enum { BENCH_MAX_RANKS = 64, BENCH_MAX_SAMPLES = 256 };

typedef struct bench_board bench_board;

/* Maps the board at `path`, creating it (all zero) if it is absent. NULL on failure, with errno
 * set. */
BENCH_API bench_board* bench_board_open(const char* path, int rank, int size);
BENCH_API void bench_board_close(bench_board* board);

/* Returns once every rank has entered. Spins briefly, then yields, so that it also works with more
 * ranks than cores. */
BENCH_API void bench_board_barrier(bench_board* board);

/* Rank 0's value, on every rank. Collective. */
BENCH_API uint64_t bench_board_share(bench_board* board, uint64_t value);

/* This rank's timestamps of one sample. */
BENCH_API void bench_board_record(bench_board* board, size_t sample, uint64_t entered_ns,
                                  uint64_t left_ns);

/* From the last rank in to the last rank out, in ns. Valid between a barrier after the last record
 * and the next barrier. */
BENCH_API uint64_t bench_board_span(const bench_board* board, size_t sample);

BENCH_API uint64_t bench_now_ns(void);

/* Binds the calling thread to the core that belongs to this rank: the rank-th of those allowed,
   counted round and round. Called after the library under test has started, so that threads of its
   own and its view of the cores stay as they were. */
BENCH_API void bench_pin_thread(int rank);

#ifdef __cplusplus
}
#endif
#endif
