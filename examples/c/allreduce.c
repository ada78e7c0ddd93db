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

static void allreduce(hvd_context *context, float *from, float *to, const char *name,
                      hvd_reduce_op op) {
  const int64_t shape[1] = {4};
  const hvd_tensor input = {from, shape, 1, HVD_FLOAT32, HVD_CPU, 0, {0, 0}};
  const hvd_tensor output = {to, shape, 1, HVD_FLOAT32, HVD_CPU, 0, {0, 0}};
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name;
  options.reduce_op = op;
  hvd_handle *handle = NULL;
  must(hvd_allreduce_async(context, &input, &output, &options, &handle, &error));
  must(hvd_wait(handle, -1, &error));
  hvd_handle_free(handle);
}

int main(void) {
  hvd_context *context = NULL;
  hvd_topology at = HVD_TOPOLOGY_INIT;
  must(hvd_init(NULL, &context, &error));
  must(hvd_topology_get(context, &at, &error));
  float mine[4] = {at.rank + 1.0f, at.rank + 1.0f, at.rank + 1.0f, at.rank + 1.0f}, sum[4];
  allreduce(context, mine, sum, "total", HVD_SUM);
  printf("rank %d of %d: sum [%.1f, %.1f, %.1f, %.1f]\n", at.rank, at.size, sum[0], sum[1], sum[2],
         sum[3]);
  allreduce(context, mine, mine, "mean", HVD_AVERAGE);
  printf("rank %d of %d: mean [%.1f, %.1f, %.1f, %.1f]\n", at.rank, at.size, mine[0], mine[1],
         mine[2], mine[3]);
  hvd_context_free(context);
  return 0;
}
