/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yardsticks: what the machine can do at this moment, to be read beside every other number of the
 * same batch.
 *
 *   yardsticks --probes                    L, Y and W
 *   yardsticks --np N --board PATH [...]   S, over the cases of cases.h, with segments of 64 KB
 *                                          and of 256 KB
 *
 *   L  a cache line sent from one core to another, one way
 *   Y  a barrier of four ranks on two cores, over four flags, yielding
 *   W  waking a thread that sleeps on another core, one way (futex)
 *   S  an allreduce through shared-memory slots, see slots.h
 */
#define _GNU_SOURCE 1
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "board.h"
#include "cases.h"
#include "measure.h"
#include "pause.h"
#include "slots.h"

enum { kProbeSamples = 21, kBarrierRanks = 4 };

struct flag {
  _Alignas(128) _Atomic uint32_t turn;
};

struct probe {
  struct flag* flags; /* one per rank, shared */
  int rank;
};

/* Two ranks bounce a number between two lines, each written by one of them. */
static void bounce_line(struct probe* probe, uint32_t first, uint32_t turns) {
  _Atomic uint32_t* mine = &probe->flags[probe->rank].turn;
  _Atomic uint32_t* theirs = &probe->flags[1 - probe->rank].turn;
  for (uint32_t turn = first; turn < first + turns; turn++) {
    if (probe->rank == 0) atomic_store_explicit(mine, turn, memory_order_release);
    while (atomic_load_explicit(theirs, memory_order_acquire) != turn) bench_pause();
    if (probe->rank == 1) atomic_store_explicit(mine, turn, memory_order_release);
  }
}

static void futex(_Atomic uint32_t* word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* The same, but each sleeps in the kernel until the other wakes it. */
static void bounce_wake(struct probe* probe, uint32_t first, uint32_t turns) {
  _Atomic uint32_t* mine = &probe->flags[probe->rank].turn;
  _Atomic uint32_t* theirs = &probe->flags[1 - probe->rank].turn;
  for (uint32_t turn = first; turn < first + turns; turn++) {
    if (probe->rank == 0) {
      atomic_store(mine, turn);
      futex(mine, FUTEX_WAKE, 1);
    }
    for (uint32_t seen; (seen = atomic_load(theirs)) != turn;) futex(theirs, FUTEX_WAIT, seen);
    if (probe->rank == 1) {
      atomic_store(mine, turn);
      futex(mine, FUTEX_WAKE, 1);
    }
  }
}

static void cross_barrier(struct probe* probe, uint32_t first, uint32_t turns) {
  for (uint32_t turn = first; turn < first + turns; turn++) {
    atomic_store_explicit(&probe->flags[probe->rank].turn, turn, memory_order_release);
    for (int rank = 0; rank < kBarrierRanks; rank++) {
      _Atomic uint32_t* flag = &probe->flags[rank].turn;
      for (int spin = 0; (int32_t)(atomic_load_explicit(flag, memory_order_acquire) - turn) < 0;
           spin++) {
        if (spin < 20)
          bench_pause();
        else
          sched_yield();
      }
    }
  }
}

static void* shared_memory(size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) bench_fail("yardsticks", 0, "mmap of shared memory failed");
  return memory;
}

static int ascending(const void* left, const void* right) {
  double a = *(const double*)left;
  double b = *(const double*)right;
  return (a > b) - (a < b);
}

/* Forks `ranks` processes and calls `run` in each. Returns when all are done; a failure of one ends
 * them and this program. */
static void in_processes(int ranks, void (*run)(void* self, int rank), void* self) {
  pid_t children[BENCH_MAX_RANKS];
  for (int rank = 0; rank < ranks; rank++) {
    children[rank] = fork();
    if (children[rank] < 0) bench_fail("yardsticks", rank, "fork failed");
    if (children[rank] > 0) continue;
    run(self, rank);
    exit(0);
  }
  for (int left = ranks; left > 0; left--) {
    int status = 0;
    wait(&status);
    if (status == 0) continue;
    for (int rank = 0; rank < ranks; rank++) kill(children[rank], SIGKILL);
    bench_fail("yardsticks", 0, "a rank failed");
  }
}

struct probe_run {
  struct flag* flags;
  void (*turns)(struct probe*, uint32_t first, uint32_t turns);
  uint32_t turns_per_sample;
  double* sample_ns; /* shared; written by rank 0 */
};

static void probe_rank(void* self, int rank) {
  struct probe_run* run = self;
  struct probe probe = {run->flags, rank};
  bench_pin_thread(rank);
  uint32_t next = 1;
  for (int sample = -1; sample < kProbeSamples; sample++) { /* the first one warms up */
    uint64_t start = bench_now_ns();
    run->turns(&probe, next, run->turns_per_sample);
    next += run->turns_per_sample;
    if (rank == 0 && sample >= 0)
      run->sample_ns[sample] = (double)(bench_now_ns() - start) / run->turns_per_sample;
  }
}

static void probe_and_print(const char* name, const char* unit, int ranks, double scale,
                            uint32_t turns, void (*function)(struct probe*, uint32_t, uint32_t)) {
  size_t flag_bytes = sizeof(struct flag) * BENCH_MAX_RANKS;
  char* memory = shared_memory(flag_bytes + kProbeSamples * sizeof(double));
  struct probe_run run = {(struct flag*)memory, function, turns, (double*)(memory + flag_bytes)};
  in_processes(ranks, probe_rank, &run);
  qsort(run.sample_ns, kProbeSamples, sizeof(double), ascending);
  bench_print("probe", name, unit, run.sample_ns[kProbeSamples / 2] * scale,
              run.sample_ns[0] * scale, kProbeSamples);
}

static void slots_allreduce(void* self, float* data, size_t count) {
  bench_slots_allreduce(self, data, count);
}

static void slots_allreduce_set(void* self, const bench_tensor_set* set, float* const* tensors) {
  for (size_t i = 0; i < set->tensor_count; i++) {
    if (set->elements[i] * sizeof(float) <= BENCH_FLAG_BYTES)
      bench_slots_flag(self, tensors[i], set->elements[i]);
    else
      bench_slots_allreduce(self, tensors[i], set->elements[i]);
  }
}

struct slots_run {
  bench_slots* slots;
  bench_options options;
  int size;
};

static void slots_rank(void* self, int rank) {
  struct slots_run* run = self;
  bench_board* board = bench_board_open(run->options.board_path, rank, run->size);
  if (board == NULL) bench_fail("yardsticks", rank, "cannot open the board; give --board PATH");
  if (run->options.pin) bench_pin_thread(rank);
  bench_slots_join(run->slots, rank);
  bench_port port = {"slots",         run->slots,          rank, run->size,
                     slots_allreduce, slots_allreduce_set, NULL};
  bench_run_cases(&port, board, &run->options);
}

static void run_slots(int argc, char** argv) {
  static const size_t kSegments[] = {64 << 10, 256 << 10};
  struct slots_run run = {.options = bench_options_parse(argc, argv)};
  run.size = atoi(bench_argument(argc, argv, "--np", "2"));
  if (run.options.board_path == NULL) bench_fail("yardsticks", 0, "--board PATH is missing");
  for (size_t i = 0; i < sizeof kSegments / sizeof *kSegments; i++) {
    unlink(run.options.board_path); /* a board starts at zero */
    run.slots = bench_slots_create(run.size, kSegments[i]);
    if (run.slots == NULL) bench_fail("yardsticks", 0, "cannot create the slots");
    in_processes(run.size, slots_rank, &run);
  }
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--probes") == 0) {
    probe_and_print("L", "ns", 2, 0.5, 50000, bounce_line);
    probe_and_print("Y", "us", kBarrierRanks, 1e-3, 500, cross_barrier);
    probe_and_print("W", "us", 2, 0.5e-3, 100, bounce_wake);
    return 0;
  }
  run_slots(argc, argv);
  return 0;
}
