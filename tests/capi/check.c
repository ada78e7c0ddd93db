/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <pthread.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

atomic_int check_failures;
static atomic_int jobs;

void check_failed(const char *file, int line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char text[2048];
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const char *base = strrchr(file, '/');
  fprintf(stderr, "%s:%d: %s\n", base ? base + 1 : file, line, text);
  atomic_fetch_add(&check_failures, 1);
}

int check_result(void) {
  int failures = atomic_load(&check_failures);
  if (failures) fprintf(stderr, "%d checks failed\n", failures);
  return failures ? 1 : 0;
}

const char *job_name(char *buffer, size_t size) {
  snprintf(buffer, size, "mem://capi-%d-%d", (int)getpid(), atomic_fetch_add(&jobs, 1));
  return buffer;
}

hvd_status open_rank(const char *job, int32_t rank, int32_t size, hvd_context **context,
                     hvd_error *error) {
  hvd_init_options options = HVD_INIT_OPTIONS_INIT;
  options.rank = rank;
  options.size = size;
  options.rendezvous = job;
  options.timeout_ns = INT64_C(20000000000);
  return hvd_init(&options, context, error);
}

hvd_context *open_alone(void) {
  char job[64];
  hvd_error error = HVD_ERROR_INIT;
  hvd_context *context = NULL;
  if (open_rank(job_name(job, sizeof job), 0, 1, &context, &error) != HVD_OK || !context) {
    fprintf(stderr, "hvd_init of a single rank: %s: %s\n", hvd_status_name(error.status),
            error.message);
    exit(1);
  }
  return context;
}

typedef struct rank_thread {
  pthread_t thread;
  pthread_barrier_t *done;
  const char *job;
  int32_t rank, size;
  rank_fn fn;
  void *argument;
} rank_thread;

static void *rank_main(void *pointer) {
  rank_thread *self = pointer;
  hvd_error error = HVD_ERROR_INIT;
  hvd_context *context = NULL;
  hvd_status status = open_rank(self->job, self->rank, self->size, &context, &error);
  if (status == HVD_OK) {
    self->fn(self->rank, self->size, context, self->argument);
  } else {
    check_failed(__FILE__, __LINE__, "hvd_init of rank %d: %s", self->rank, error.message);
  }
  pthread_barrier_wait(self->done);
  if (context) {
    CHECK_STATUS(HVD_OK, hvd_shutdown(context, INT64_C(5000000000), &error));
    hvd_context_free(context);
  }
  return NULL;
}

void run_world(int32_t size, rank_fn fn, void *argument) {
  char job[64];
  job_name(job, sizeof job);
  pthread_barrier_t done;
  pthread_barrier_init(&done, NULL, (unsigned)size);
  rank_thread *ranks = calloc((size_t)size, sizeof *ranks);
  for (int32_t rank = 0; rank < size; ++rank) {
    ranks[rank] = (rank_thread){0, &done, job, rank, size, fn, argument};
    pthread_create(&ranks[rank].thread, NULL, rank_main, &ranks[rank]);
  }
  for (int32_t rank = 0; rank < size; ++rank) pthread_join(ranks[rank].thread, NULL);
  free(ranks);
  pthread_barrier_destroy(&done);
}

hvd_tensor vector_of(void *data, const int64_t *length, hvd_dtype dtype) {
  hvd_tensor tensor = {data, length, 1, dtype, HVD_CPU, 0, {0, 0}};
  return tensor;
}

hvd_op_options named(const char *name) {
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name;
  return options;
}

int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
