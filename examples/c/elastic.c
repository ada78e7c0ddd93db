/* SPDX-License-Identifier: Apache-2.0 */
/* Training that goes on when ranks die and others come: `horovodrun -np 4 --min-np 2 ./elastic`.
 * Alone and under any other launcher the members are fixed, and the same program runs. */
#define _POSIX_C_SOURCE 200809L
#include <hvd/hvd.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* What the training needs in order to go on. */
typedef struct {
  double weights[3];
  double step;
} state;

static state now, committed;
static long commits = -1; /* of the whole job; -1 until this process has a state of the job */
static hvd_error error = HVD_ERROR_INIT;

static hvd_status wait_for(hvd_handle *handle) {
  const hvd_status status = hvd_wait(handle, -1, &error);
  hvd_handle_free(handle);
  return status;
}

static hvd_status reduce(hvd_context *job, const char *name, void *data, int64_t count,
                         hvd_dtype dtype, hvd_reduce_op op) {
  const hvd_tensor tensor = {data, &count, 1, dtype, HVD_CPU, 0, {0, 0}};
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name;
  options.reduce_op = op;
  hvd_handle *handle = NULL;
  const hvd_status status = hvd_allreduce_async(job, &tensor, &tensor, &options, &handle, &error);
  return status == HVD_OK ? wait_for(handle) : status;
}

static hvd_status broadcast(hvd_context *job, const char *name, void *data, int64_t bytes) {
  const hvd_tensor tensor = {data, &bytes, 1, HVD_BYTES, HVD_CPU, 0, {0, 0}};
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name;
  hvd_handle *handle = NULL;
  const hvd_status status = hvd_broadcast_async(job, &tensor, &tensor, &options, &handle, &error);
  return status == HVD_OK ? wait_for(handle) : status;
}

/* Joins the next epoch; in a job of fixed members, the job. */
static hvd_status join(hvd_context **job) {
  char position[32];
  snprintf(position, sizeof position, "%ld", commits);
  const hvd_option came_so_far = {"membership_position", position};
  hvd_init_options options = HVD_INIT_OPTIONS_INIT;
  options.options = &came_so_far;
  options.option_count = commits < 0 ? 0 : 1;
  return hvd_init(&options, job, &error);
}

/* Keeps the state, to which a failure goes back. `changed`: the members go on with others now. */
static hvd_status commit(hvd_context *job, int *changed) {
  committed = now;
  ++commits;
  hvd_membership members = HVD_MEMBERSHIP_INIT;
  hvd_status status = hvd_membership_get(job, &members, &error);
  if (status != HVD_OK || members.epoch == 0) return status;
  int32_t changes = (int32_t)members.changes; /* each rank hears of them at another time */
  status = reduce(job, "hvd.elastic.commit", &changes, 1, HVD_INT32, HVD_MAX);
  *changed = changes != 0;
  return status;
}

static hvd_status take_over(hvd_context *job) {
  hvd_status status = broadcast(job, "state", &now, sizeof now);
  int64_t count = commits < 0 ? 0 : commits;
  if (status == HVD_OK) status = broadcast(job, "hvd.elastic.commits", &count, sizeof count);
  if (status != HVD_OK) return status;
  committed = now;
  commits = (long)count;
  return HVD_OK;
}

static hvd_status one_step(hvd_context *job) {
  double gradient[3];
  for (int i = 0; i < 3; ++i) gradient[i] = (now.weights[i] - i) * (1 + (int)now.step % 3);
  const hvd_status status = reduce(job, "gradient", gradient, 3, HVD_FLOAT64, HVD_AVERAGE);
  if (status != HVD_OK) return status;
  for (int i = 0; i < 3; ++i) now.weights[i] -= 0.05 * gradient[i];
  now.step += 1;
  const struct timespec pause = {0, 10000000};
  nanosleep(&pause, NULL); /* so that there is time to kill a rank */
  return HVD_OK;
}

/* Trains until the end, an operation that fails, or a change of the members. */
static hvd_status train(hvd_context *job, double steps, int *ended) {
  hvd_membership members = HVD_MEMBERSHIP_INIT;
  hvd_status status = hvd_membership_get(job, &members, &error);
  if (status == HVD_OK && (members.epoch == 0 || members.synchronize)) status = take_over(job);
  if (status == HVD_OK) printf("begins at step %.0f\n", now.step);
  int changed = 0;
  while (status == HVD_OK && !changed && now.step < steps) {
    status = one_step(job);
    if (status == HVD_OK) status = commit(job, &changed);
    if (status == HVD_OK && (int)now.step % 4 == 0) printf("at step %.0f\n", now.step);
  }
  *ended = status == HVD_OK && !changed;
  return status;
}

/* Whether another membership can make good what has happened. */
static int can_go_on(hvd_status status) {
  return getenv("HOROVOD_MEMBERSHIP") != NULL &&
         (status == HVD_ERR_PEER_LOST || status == HVD_ERR_SHUT_DOWN || status == HVD_ERR_TIMEOUT);
}

int main(int argc, char **argv) {
  const double steps = argc > 1 ? atof(argv[1]) : 40;
  const char *worker = getenv("HOROVOD_WORKER");
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("worker %s pid %d\n", worker == NULL ? "0" : worker, (int)getpid());
  for (;;) {
    hvd_context *job = NULL;
    hvd_topology place = HVD_TOPOLOGY_INIT;
    int ended = 0;
    hvd_status status = join(&job);
    if (status == HVD_ERR_DISMISSED && error.sys_errno == 0) return 0; /* in order, not expelled */
    if (status == HVD_OK) status = hvd_topology_get(job, &place, &error);
    if (status == HVD_OK) status = train(job, steps, &ended);
    const int goes_on = status == HVD_OK || can_go_on(status);
    hvd_context_free(job);
    if (ended) {
      printf("came to %.9f %.9f %.9f as rank %d of %d\n", now.weights[0], now.weights[1],
             now.weights[2], place.rank, place.size);
      return 0;
    }
    if (!goes_on) {
      fprintf(stderr, "%s: %s\n", hvd_status_name(status), error.message);
      return 1;
    }
    if (status != HVD_OK) now = committed;
  }
}
