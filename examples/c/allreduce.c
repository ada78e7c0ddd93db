/* SPDX-License-Identifier: Apache-2.0 */
/* Sums an array over all ranks, then averages it in place: `horovodrun -np 2 ./allreduce`. */
#include <hvd/hvd.h>
#include <stdio.h>
#include <stdlib.h>

static hvd_error error = HVD_ERROR_INIT;

static void must(hvd_status status) {
  if (status == HVD_OK) return;
  fprintf(stderr, "%s: %s\n", hvd_status_name(status), error.message);
  exit(1);
}

static void allreduce(hvd_context *job, float *in, float *out, const char *name, hvd_reduce_op op) {
  const int64_t shape[1] = {4};
  const hvd_tensor input = {in, shape, 1, HVD_FLOAT32, HVD_CPU, 0, {0, 0}};
  const hvd_tensor output = {out, shape, 1, HVD_FLOAT32, HVD_CPU, 0, {0, 0}};
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name;
  options.reduce_op = op;
  hvd_handle *handle = NULL;
  must(hvd_allreduce_async(job, &input, &output, &options, &handle, &error));
  must(hvd_wait(handle, -1, &error));
  hvd_handle_free(handle);
}

int main(void) {
  hvd_context *job = NULL;
  hvd_topology t = HVD_TOPOLOGY_INIT;
  must(hvd_init(NULL, &job, &error));
  must(hvd_topology_get(job, &t, &error));
  float x[4] = {t.rank + 1.0f, t.rank + 1.0f, t.rank + 1.0f, t.rank + 1.0f}, y[4];
  allreduce(job, x, y, "total", HVD_SUM);
  printf("rank %d of %d: sum [%.1f, %.1f, %.1f, %.1f]\n", t.rank, t.size, y[0], y[1], y[2], y[3]);
  allreduce(job, x, x, "mean", HVD_AVERAGE);
  printf("rank %d of %d: mean [%.1f, %.1f, %.1f, %.1f]\n", t.rank, t.size, x[0], x[1], x[2], x[3]);
  hvd_context_free(job);
  return 0;
}
