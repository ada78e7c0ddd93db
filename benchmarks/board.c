/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pause.h"

/* Two cache lines apart: the adjacent-line prefetcher would otherwise couple neighbouring ranks. */
struct board_rank {
  _Alignas(128) _Atomic uint32_t arrived;
  _Alignas(128) uint64_t entered_ns[BENCH_MAX_SAMPLES];
  uint64_t left_ns[BENCH_MAX_SAMPLES];
};

struct board_memory {
  _Alignas(128) uint64_t shared_value;
  struct board_rank ranks[BENCH_MAX_RANKS];
};

struct bench_board {
  struct board_memory* memory;
  int rank;
  int size;
  int spins;
  uint32_t barriers;
};

static int allowed_cores(cpu_set_t* cores) {
  CPU_ZERO(cores);
  if (sched_getaffinity(0, sizeof *cores, cores) != 0) return 0;
  return CPU_COUNT(cores);
}

bench_board* bench_board_open(const char* path, int rank, int size) {
  if (size < 1 || size > BENCH_MAX_RANKS || rank < 0 || rank >= size) {
    errno = EINVAL;
    return NULL;
  }
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return NULL;
  struct board_memory* memory = MAP_FAILED;
  if (ftruncate(fd, sizeof *memory) == 0)
    memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return NULL;
  bench_board* board = calloc(1, sizeof *board);
  if (board == NULL) return NULL;
  cpu_set_t cores;
  board->memory = memory;
  board->rank = rank;
  board->size = size;
  board->spins = size <= allowed_cores(&cores) ? 2000 : 20;
  return board;
}

void bench_board_close(bench_board* board) {
  if (board == NULL) return;
  munmap(board->memory, sizeof *board->memory);
  free(board);
}

void bench_board_barrier(bench_board* board) {
  uint32_t turn = ++board->barriers;
  atomic_store_explicit(&board->memory->ranks[board->rank].arrived, turn, memory_order_release);
  for (int rank = 0; rank < board->size; rank++) {
    _Atomic uint32_t* arrived = &board->memory->ranks[rank].arrived;
    for (int spin = 0; (int32_t)(atomic_load_explicit(arrived, memory_order_acquire) - turn) < 0;
         spin++) {
      if (spin < board->spins)
        bench_pause();
      else
        sched_yield();
    }
  }
}

uint64_t bench_board_share(bench_board* board, uint64_t value) {
  if (board->rank == 0) board->memory->shared_value = value;
  bench_board_barrier(board);
  uint64_t shared = board->memory->shared_value;
  /* Without the second barrier rank 0 could overwrite the value before a slow rank has read it. */
  bench_board_barrier(board);
  return shared;
}

void bench_board_record(bench_board* board, size_t sample, uint64_t entered_ns, uint64_t left_ns) {
  board->memory->ranks[board->rank].entered_ns[sample] = entered_ns;
  board->memory->ranks[board->rank].left_ns[sample] = left_ns;
}

uint64_t bench_board_span(const bench_board* board, size_t sample) {
  uint64_t last_in = 0;
  uint64_t last_out = 0;
  for (int rank = 0; rank < board->size; rank++) {
    const struct board_rank* times = &board->memory->ranks[rank];
    if (times->entered_ns[sample] > last_in) last_in = times->entered_ns[sample];
    if (times->left_ns[sample] > last_out) last_out = times->left_ns[sample];
  }
  return last_out - last_in;
}

uint64_t bench_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void bench_pin_thread(int rank) {
  cpu_set_t cores;
  int count = allowed_cores(&cores);
  if (count < 1) return;
  int wanted = rank % count;
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &cores) || wanted-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}
