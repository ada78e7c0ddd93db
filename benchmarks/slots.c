/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "slots.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "board.h"
#include "pause.h"

#if defined(__x86_64__)
/* One copy per instruction set, chosen when the program is loaded. */
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR_CLONES
#endif

struct counters {
  /* blocks whose parts this rank has put into its slots */
  _Alignas(128) _Atomic uint32_t copied;
  _Alignas(128) _Atomic uint32_t published; /* blocks of which this rank has published its sum */
  _Alignas(128) _Atomic uint32_t flagged;   /* small tensors that this rank has put into its slot */
};

struct bench_slots {
  int size;
  int rank;
  int spins;
  size_t segment;
  struct counters* counters; /* per rank */
  /* per rank: 2 × size × segment, what it gives to each other rank */
  char* parts[BENCH_MAX_RANKS];
  char* sums[BENCH_MAX_RANKS];   /* per rank: 2 × segment */
  char* wholes[BENCH_MAX_RANKS]; /* per rank: 2 × BENCH_FLAG_BYTES */
  uint32_t blocks_done;
  uint32_t flags_done;
};

struct range {
  size_t begin;
  size_t end;
};

VECTOR_CLONES static void add_into(float* restrict sum, const float* restrict other, size_t count) {
  for (size_t i = 0; i < count; i++) sum[i] += other[i];
}

/* The last addition also writes the sum into the slot, which saves reading it again. */
VECTOR_CLONES static void add_and_publish(float* restrict sum, float* restrict published,
                                          const float* restrict other, size_t count) {
  for (size_t i = 0; i < count; i++) {
    float value = sum[i] + other[i];
    sum[i] = value;
    published[i] = value;
  }
}

static void* shared_memory(size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  madvise(memory, bytes, MADV_HUGEPAGE); /* a hint; without it only slower */
  memset(memory, 0, bytes);
  return memory;
}

bench_slots* bench_slots_create(int size, size_t segment) {
  bench_slots* slots = calloc(1, sizeof *slots);
  if (slots == NULL || size > BENCH_MAX_RANKS) return NULL;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  slots->size = size;
  slots->segment = segment;
  slots->spins = size <= CPU_COUNT(&cores) ? 2000 : 20;
  slots->counters = shared_memory(sizeof(struct counters) * (size_t)size);
  int missing = slots->counters == NULL;
  for (int rank = 0; rank < size; rank++) {
    slots->parts[rank] = shared_memory(2 * (size_t)size * segment);
    slots->sums[rank] = shared_memory(2 * segment);
    slots->wholes[rank] = shared_memory(2 * BENCH_FLAG_BYTES);
    missing |=
        slots->parts[rank] == NULL || slots->sums[rank] == NULL || slots->wholes[rank] == NULL;
  }
  return missing ? NULL : slots;
}

void bench_slots_join(bench_slots* slots, int rank) { slots->rank = rank; }

static void wait_for(const bench_slots* slots, _Atomic uint32_t* counter, uint32_t value) {
  for (int spin = 0; (int32_t)(atomic_load_explicit(counter, memory_order_acquire) - value) < 0;
       spin++) {
    if (spin < slots->spins)
      bench_pause();
    else
      sched_yield();
  }
}

static void post(_Atomic uint32_t* counter, uint32_t value) {
  atomic_store_explicit(counter, value, memory_order_release);
}

static struct range part_of(const bench_slots* slots, size_t count, size_t step, size_t block,
                            int rank) {
  size_t begin = (block * (size_t)slots->size + (size_t)rank) * step;
  size_t end = begin + step;
  struct range range = {begin < count ? begin : count, end < count ? end : count};
  return range;
}

static float* part_slot(const bench_slots* slots, int from, int to, size_t turn) {
  size_t index = (turn & 1) * (size_t)slots->size + (size_t)to;
  return (float*)(slots->parts[from] + index * slots->segment);
}

static float* sum_slot(const bench_slots* slots, int rank, size_t turn) {
  return (float*)(slots->sums[rank] + (turn & 1) * slots->segment);
}

static int peer_at(const bench_slots* slots, int distance) {
  return (slots->rank + distance) % slots->size;
}

static void copy_in(bench_slots* slots, const float* data, size_t count, size_t step,
                    size_t block) {
  size_t turn = slots->blocks_done + block;
  for (int peer = 0; peer < slots->size; peer++) {
    if (peer == slots->rank) continue;
    struct range range = part_of(slots, count, step, block, peer);
    memcpy(part_slot(slots, slots->rank, peer, turn), data + range.begin,
           (range.end - range.begin) * sizeof *data);
  }
  post(&slots->counters[slots->rank].copied, (uint32_t)turn + 1);
}

static void reduce(bench_slots* slots, float* data, size_t count, size_t step, size_t block) {
  size_t turn = slots->blocks_done + block;
  struct range range = part_of(slots, count, step, block, slots->rank);
  size_t length = range.end - range.begin;
  for (int distance = 1; distance < slots->size; distance++) {
    int peer = peer_at(slots, distance);
    wait_for(slots, &slots->counters[peer].copied, (uint32_t)turn + 1);
    const float* theirs = part_slot(slots, peer, slots->rank, turn);
    if (distance + 1 < slots->size)
      add_into(data + range.begin, theirs, length);
    else
      add_and_publish(data + range.begin, sum_slot(slots, slots->rank, turn), theirs, length);
  }
  post(&slots->counters[slots->rank].published, (uint32_t)turn + 1);
}

static void copy_out(bench_slots* slots, float* data, size_t count, size_t step, size_t block) {
  size_t turn = slots->blocks_done + block;
  for (int distance = 1; distance < slots->size; distance++) {
    int peer = peer_at(slots, distance);
    wait_for(slots, &slots->counters[peer].published, (uint32_t)turn + 1);
    struct range range = part_of(slots, count, step, block, peer);
    memcpy(data + range.begin, sum_slot(slots, peer, turn),
           (range.end - range.begin) * sizeof *data);
  }
}

void bench_slots_allreduce(bench_slots* slots, float* data, size_t count) {
  size_t size = (size_t)slots->size;
  size_t step = slots->segment / sizeof *data;
  /* whole cache lines per rank */
  if (count < step * size) step = ((count + size - 1) / size + 15) / 16 * 16;
  size_t blocks = (count + step * size - 1) / (step * size);
  copy_in(slots, data, count, step, 0);
  for (size_t block = 0; block < blocks; block++) {
    if (block + 1 < blocks) copy_in(slots, data, count, step, block + 1);
    reduce(slots, data, count, step, block);
    copy_out(slots, data, count, step, block);
  }
  slots->blocks_done += (uint32_t)blocks;
}

void bench_slots_flag(bench_slots* slots, float* data, size_t count) {
  uint32_t turn = ++slots->flags_done;
  size_t offset = (turn & 1) * BENCH_FLAG_BYTES;
  memcpy(slots->wholes[slots->rank] + offset, data, count * sizeof *data);
  post(&slots->counters[slots->rank].flagged, turn);
  for (int distance = 1; distance < slots->size; distance++) {
    int peer = peer_at(slots, distance);
    wait_for(slots, &slots->counters[peer].flagged, turn);
    add_into(data, (const float*)(slots->wholes[peer] + offset), count);
  }
}
