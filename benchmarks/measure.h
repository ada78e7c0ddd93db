/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.h: times one operation on all ranks at once.
 *
 * A sample is the time from the last rank in to the last rank out, so it does not matter whose
 * clock is read and a rank that arrives late does not count as slow. The result is the median of
 * the samples: as many as fit into the budget, but at least 5 and at most 31. Rank 0 decides and
 * everybody does the same.
 */
#ifndef HVD_BENCHMARKS_MEASURE_H
#define HVD_BENCHMARKS_MEASURE_H

#include "board.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*bench_step)(void* self);

typedef struct bench_timing {
  double median_us;
  double lowest_us;
  unsigned samples;
  unsigned repeats; /* operations per sample */
} bench_timing;

/* Many operations per sample, one after another, on buffers that nobody writes in between. For
   sizes where a clock read would weigh. Above some 16 KB it flatters: each rank keeps its half in
   its own cache. */
bench_timing bench_measure_loop(bench_board* board, bench_step operation, void* self,
                                uint64_t budget_ns);

/* One operation per sample, after `rewrite` has written the buffers anew, as a training step does.
 */
bench_timing bench_measure_touch(bench_board* board, bench_step operation, bench_step rewrite,
                                 void* self, uint64_t budget_ns);

/* One result as a line of JSON on stdout. */
void bench_print(const char* program, const char* name, const char* unit, double value,
                 double lowest, unsigned samples);

#ifdef __cplusplus
}
#endif
#endif
