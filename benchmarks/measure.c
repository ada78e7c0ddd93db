/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  kLoopSampleNs = 2000000,
  kMaxRepeats = 2000,
  kMinSamples = 5,
  kMaxSamples = 31,
  kWarmUps = 4
};

static unsigned clamp(uint64_t value, unsigned low, unsigned high) {
  if (value < low) return low;
  return value > high ? high : (unsigned)value;
}

static int ascending(const void* left, const void* right) {
  double a = *(const double*)left;
  double b = *(const double*)right;
  return (a > b) - (a < b);
}

static bench_timing summarise(bench_board* board, unsigned samples, unsigned repeats) {
  double spans_us[BENCH_MAX_SAMPLES];
  bench_board_barrier(board);
  for (unsigned i = 0; i < samples; i++)
    spans_us[i] = (double)bench_board_span(board, i) / 1e3 / repeats;
  /* Nobody may begin the next measurement while a slow rank still reads this one. */
  bench_board_barrier(board);
  qsort(spans_us, samples, sizeof *spans_us, ascending);
  bench_timing timing = {spans_us[samples / 2], spans_us[0], samples, repeats};
  return timing;
}

/* Warms up and returns what one turn takes, the same number on every rank; never 0. */
static uint64_t estimate_ns(bench_board* board, bench_step operation, bench_step rewrite,
                            void* self) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < kWarmUps; i++) {
    bench_board_barrier(board);
    uint64_t start = bench_now_ns();
    if (rewrite != NULL) rewrite(self);
    operation(self);
    uint64_t spent = bench_now_ns() - start;
    if (spent < best) best = spent;
  }
  return bench_board_share(board, best) + 1;
}

/* Whether rank 0 wants another sample: the estimate was made in a quiet moment, and the budget
 * holds in a busy one too. */
static int another(bench_board* board, unsigned taken, uint64_t deadline_ns) {
  int wanted = taken < kMinSamples || (taken < kMaxSamples && bench_now_ns() < deadline_ns);
  return bench_board_share(board, (uint64_t)wanted) != 0;
}

bench_timing bench_measure_loop(bench_board* board, bench_step operation, void* self,
                                uint64_t budget_ns) {
  uint64_t each_ns = estimate_ns(board, operation, NULL, self);
  unsigned repeats = clamp(kLoopSampleNs / each_ns, 1, kMaxRepeats);
  uint64_t deadline_ns = bench_now_ns() + budget_ns;
  unsigned samples = 0;
  for (; another(board, samples, deadline_ns); samples++) {
    uint64_t entered = bench_now_ns();
    for (unsigned i = 0; i < repeats; i++) operation(self);
    bench_board_record(board, samples, entered, bench_now_ns());
  }
  return summarise(board, samples, repeats);
}

bench_timing bench_measure_touch(bench_board* board, bench_step operation, bench_step rewrite,
                                 void* self, uint64_t budget_ns) {
  estimate_ns(board, operation, rewrite, self); /* for its warm-up */
  uint64_t deadline_ns = bench_now_ns() + budget_ns;
  unsigned samples = 0;
  for (; another(board, samples, deadline_ns); samples++) {
    rewrite(self);
    bench_board_barrier(board);
    uint64_t entered = bench_now_ns();
    operation(self);
    bench_board_record(board, samples, entered, bench_now_ns());
  }
  return summarise(board, samples, 1);
}

void bench_print(const char* program, const char* name, const char* unit, double value,
                 double lowest, unsigned samples) {
  printf(
      "{\"program\": \"%s\", \"case\": \"%s\", \"unit\": \"%s\", \"value\": %.4f, \"lowest\": "
      "%.4f, \"samples\": %u}\n",
      program, name, unit, value, lowest, samples);
  fflush(stdout);
}
