/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "measure.h"

/* From here on buffers are rewritten before every operation; below it, loops. */
enum { kTouchBytes = 65536 };

struct run {
  const bench_port* port;
  bench_board* board;
  const bench_options* options;
  float* send;
  float* receive; /* also the buffer of in-place operations */
  size_t count;
  bench_collective kind;
  const bench_tensor_set* set;
  float* tensors[BENCH_MAX_TENSORS];
};

void bench_fail(const char* program, int rank, const char* text) {
  fprintf(stderr, "%s: rank %d: %s\n", program, rank, text);
  exit(1);
}

const char* bench_argument(int argc, char** argv, const char* name, const char* fallback) {
  for (int i = 1; i + 1 < argc; i++)
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  return fallback;
}

static void select_cases(bench_options* options, const char* list) {
  char copy[128];
  snprintf(copy, sizeof copy, "%s", list);
  for (char *rest = copy, *name; (name = strsep(&rest, ",")) != NULL;) {
    if (strcmp(name, "sync") == 0)
      options->run_sync = 1;
    else if (strcmp(name, "sets") == 0)
      options->run_sets = 1;
    else if (strcmp(name, "bert") == 0)
      options->run_bert = 1;
    else if (strcmp(name, "collectives") == 0)
      options->run_collectives = 1;
    else if (*name != '\0') {
      fprintf(stderr, "--cases: %s is none of sync, sets, bert, collectives\n", name);
      exit(2);
    }
  }
}

bench_options bench_options_parse(int argc, char** argv) {
  bench_options options = {0};
  options.board_path = bench_argument(argc, argv, "--board", NULL);
  options.budget_ns =
      strtoull(bench_argument(argc, argv, "--budget-ms", "200"), NULL, 10) * 1000000u;
  options.max_bytes = strtoull(bench_argument(argc, argv, "--max-bytes", "67108864"), NULL, 10);
  options.pin = 1;
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--no-pin") == 0) options.pin = 0;
  select_cases(&options, bench_argument(argc, argv, "--cases", "sync,sets"));
  return options;
}

/* Page-aligned memory of ordinary pages, all present: what a framework's allocator gives for a
 * tensor, without its faults. */
static float* buffer(const struct run* run, size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    bench_fail(run->port->program, run->port->rank, "mmap of a buffer failed");
  memset(memory, 0, bytes);
  return memory;
}

static float input(int rank, size_t index) { return (float)(rank + 1 + (int)(index % 5)); }

static float expected_sum(int size, size_t index) {
  return (float)(size * (size + 1) / 2 + size * (int)(index % 5));
}

static void fill(const struct run* run, float* data, size_t count) {
  for (size_t i = 0; i < count; i++) data[i] = input(run->port->rank, i);
}

static void require(const struct run* run, int correct, const char* what) {
  if (correct) return;
  char text[128];
  snprintf(text, sizeof text, "%s gave a wrong result", what);
  bench_fail(run->port->program, run->port->rank, text);
}

static void check_sum(const struct run* run, const float* data, size_t count, const char* what) {
  for (size_t i = 0; i < count; i++)
    require(run, data[i] == expected_sum(run->port->size, i), what);
}

static void report(const struct run* run, const char* name, bench_timing timing) {
  if (run->port->rank == 0)
    bench_print(run->port->program, name, "us", timing.median_us, timing.lowest_us, timing.samples);
}

static void step_allreduce(void* self) {
  struct run* run = self;
  run->port->allreduce(run->port->self, run->receive, run->count);
}

static void rewrite_buffer(void* self) {
  struct run* run = self;
  fill(run, run->receive, run->count);
}

static void run_sync(struct run* run) {
  static const size_t kBytes[] = {8, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
  for (size_t i = 0; i < sizeof kBytes / sizeof *kBytes && kBytes[i] <= run->options->max_bytes;
       i++) {
    char name[64];
    snprintf(name, sizeof name, "allreduce/%zu", kBytes[i]);
    run->count = kBytes[i] / sizeof(float);
    run->receive = buffer(run, kBytes[i]);
    rewrite_buffer(run);
    step_allreduce(run);
    check_sum(run, run->receive, run->count, name);
    memset(run->receive, 0, kBytes[i]); /* a loop of sums would run into infinity */
    uint64_t budget = run->options->budget_ns;
    report(run, name,
           kBytes[i] >= kTouchBytes
               ? bench_measure_touch(run->board, step_allreduce, rewrite_buffer, run, budget)
               : bench_measure_loop(run->board, step_allreduce, run, budget));
    munmap(run->receive, kBytes[i]);
  }
}

static void step_set(void* self) {
  struct run* run = self;
  run->port->allreduce_set(run->port->self, run->set, run->tensors);
}

static void rewrite_set(void* self) {
  struct run* run = self;
  for (size_t i = 0; i < run->set->tensor_count; i++)
    fill(run, run->tensors[i], run->set->elements[i]);
}

static void run_set(struct run* run, void (*make)(bench_tensor_set*)) {
  bench_tensor_set set;
  make(&set);
  size_t bytes = 0;
  for (size_t i = 0; i < set.tensor_count; i++)
    bytes += (set.elements[i] * sizeof(float) + 63) / 64 * 64;
  char* memory = (char*)buffer(run, bytes);
  char* next = memory;
  for (size_t i = 0; i < set.tensor_count; i++) {
    run->tensors[i] = (float*)next;
    next += (set.elements[i] * sizeof(float) + 63) / 64 * 64;
  }
  run->set = &set;
  char name[64];
  snprintf(name, sizeof name, "set/%s", set.name);
  rewrite_set(run);
  step_set(run);
  for (size_t i = 0; i < set.tensor_count; i++)
    check_sum(run, run->tensors[i], set.elements[i], name);
  report(run, name,
         bench_measure_touch(run->board, step_set, rewrite_set, run, run->options->budget_ns));
  munmap(memory, bytes);
}

static void step_collective(void* self) {
  struct run* run = self;
  run->port->collective(run->port->self, run->kind, run->send, run->receive, run->count);
}

static void rewrite_collective(void* self) {
  struct run* run = self;
  size_t part = run->count / (size_t)run->port->size;
  if (run->kind == BENCH_BROADCAST)
    fill(run, run->receive, run->count);
  else
    fill(run, run->send, run->kind == BENCH_ALLGATHER ? part : run->count);
}

static void check_collective(const struct run* run, const char* name) {
  size_t part = run->count / (size_t)run->port->size;
  size_t mine = part * (size_t)run->port->rank;
  for (size_t i = 0; i < run->count; i++) {
    int sender = (int)(i / part);
    float value = run->receive[i];
    if (run->kind == BENCH_ALLGATHER) require(run, value == input(sender, i % part), name);
    if (run->kind == BENCH_BROADCAST) require(run, value == input(0, i), name);
    if (run->kind == BENCH_ALLTOALL) require(run, value == input(sender, mine + i % part), name);
    if (run->kind == BENCH_REDUCESCATTER && i < part)
      require(run, value == expected_sum(run->port->size, mine + i), name);
  }
}

static void run_collective(struct run* run, bench_collective kind, size_t bytes) {
  static const char* const kNames[] = {"allgather", "broadcast", "alltoall", "reducescatter"};
  char name[64];
  snprintf(name, sizeof name, "%s/%zu", kNames[kind], bytes);
  run->kind = kind;
  run->count = bytes / sizeof(float);
  run->send = buffer(run, bytes);
  run->receive = buffer(run, bytes);
  rewrite_collective(run);
  step_collective(run);
  check_collective(run, name);
  uint64_t budget = run->options->budget_ns;
  memset(run->send, 0, bytes);
  report(run, name,
         bytes >= kTouchBytes
             ? bench_measure_touch(run->board, step_collective, rewrite_collective, run, budget)
             : bench_measure_loop(run->board, step_collective, run, budget));
  munmap(run->send, bytes);
  munmap(run->receive, bytes);
}

static void run_collectives(struct run* run) {
  static const size_t kBytes[] = {64, 16 << 10, 1 << 20, 16 << 20};
  for (int kind = 0; kind < BENCH_BARRIER; kind++)
    for (size_t i = 0; i < sizeof kBytes / sizeof *kBytes && kBytes[i] <= run->options->max_bytes;
         i++)
      run_collective(run, (bench_collective)kind, kBytes[i]);
  run->kind = BENCH_BARRIER;
  report(run, "barrier",
         bench_measure_loop(run->board, step_collective, run, run->options->budget_ns));
}

void bench_run_cases(const bench_port* port, bench_board* board, const bench_options* options) {
  struct run run = {.port = port, .board = board, .options = options};
  if (options->run_sync) run_sync(&run);
  if (options->run_sets) {
    run_set(&run, bench_set_small);
    run_set(&run, bench_set_resnet50);
  }
  if (options->run_bert) run_set(&run, bench_set_bert);
  if (options->run_collectives && port->collective != NULL) run_collectives(&run);
}
