/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h: the yardstick S, a float32 sum over shared memory with nothing around it: no names, no
 * negotiation, no checks, no other types. What it takes is what this algorithm can reach on the
 * machine; an engine is judged by its distance to it.
 *
 * Large tensors go in blocks. Each rank owns one part of a block: it copies the other ranks' parts
 * of its own data into its slots, adds up its own part from everybody's slots, publishes the sum
 * and copies the others' sums out. Slots are doubled, so that the next block is being copied in
 * while this one is added. Small tensors (bench_slots_flag) go whole into one slot per rank and
 * everybody adds them all.
 */
#ifndef HVD_BENCHMARKS_SLOTS_H
#define HVD_BENCHMARKS_SLOTS_H

#include <stddef.h>

enum { BENCH_FLAG_BYTES = 16384 };

typedef struct bench_slots bench_slots;

/* Called once, before the ranks are forked; `segment` is the bytes of one rank's part of a block.
 * NULL on failure. */
bench_slots* bench_slots_create(int size, size_t segment);

/* In the child that is to be this rank. */
void bench_slots_join(bench_slots* slots, int rank);

/* In place sums; collective. */
void bench_slots_allreduce(bench_slots* slots, float* data, size_t count);
void bench_slots_flag(bench_slots* slots, float* data, size_t count); /* at most BENCH_FLAG_BYTES */

#endif
