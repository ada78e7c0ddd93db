/* SPDX-License-Identifier: Apache-2.0 */
/* Reduces several arrays as one operation, and gathers arrays of different lengths: `horovodrun -np
 * 2 ./grouped`. */
#include <hvd/hvd.h>
#include <stdio.h>
#include <stdlib.h>

static hvd_error error = HVD_ERROR_INIT;

static void must(hvd_status status) {
  if (status == HVD_OK) return;
  fprintf(stderr, "%s: %s\n", hvd_status_name(status), error.message);
  exit(1);
}

static hvd_tensor tensor_of(void *data, const int64_t *shape, int32_t ndim, hvd_dtype dtype) {
  const hvd_tensor tensor = {data, shape, ndim, dtype, HVD_CPU, 0, {0, 0}};
  return tensor;
}

/* The group is reduced together or not at all, whatever the order in which the ranks submit other
 * operations. */
static void group(hvd_context *context, int32_t rank) {
  static const int64_t shapes[3][2] = {{1, 3}, {2, 3}, {5, 3}};
  float data[3][15];
  hvd_tensor gradients[3];
  for (int t = 0; t < 3; ++t) {
    for (int i = 0; i < 15; ++i) data[t][i] = (float)rank;
    gradients[t] = tensor_of(data[t], shapes[t], 2, HVD_FLOAT32);
  }
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = "gradients";
  options.reduce_op = HVD_AVERAGE;
  hvd_handle *handle = NULL;
  must(hvd_grouped_allreduce_async(context, gradients, gradients, 3, &options, &handle, &error));
  must(hvd_wait(handle, -1, &error));
  printf("rank %d: mean of the ranks %.1f, shapes [", rank, data[0][0]);
  for (size_t t = 0; t < hvd_handle_output_count(handle); ++t) {
    hvd_tensor mean;
    must(hvd_handle_output(handle, t, &mean, &error));
    printf("%s(%d, %d)", t > 0 ? ", " : "", (int)mean.shape[0], (int)mean.shape[1]);
  }
  printf("]\n");
  hvd_handle_free(handle);
}

/* Rank r brings r + 1 rows. The library allocates the result, which lives as long as the handle. */
static int64_t gather(hvd_context *context, int32_t rank) {
  const int64_t shape[2] = {rank + 1, 2};
  int64_t *mine = malloc((size_t)(2 * shape[0]) * sizeof *mine);
  if (mine == NULL) exit(1);
  for (int64_t i = 0; i < 2 * shape[0]; ++i) mine[i] = rank;
  const hvd_tensor input = tensor_of(mine, shape, 2, HVD_INT64);
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = "rows";
  hvd_handle *handle = NULL;
  must(hvd_allgatherv_async(context, &input, NULL, &options, &handle, &error));
  must(hvd_wait(handle, -1, &error));
  hvd_tensor all;
  must(hvd_handle_output(handle, 0, &all, &error));
  const int64_t rows = all.shape[0];
  printf("rank %d: gathered %d rows, first column [", rank, (int)rows);
  for (int64_t i = 0; i < rows; ++i)
    printf("%s%d", i > 0 ? ", " : "", (int)((const int64_t *)all.data)[2 * i]);
  printf("]\n");
  hvd_handle_free(handle);
  free(mine);
  return rows;
}

int main(void) {
  hvd_context *context = NULL;
  must(hvd_init(NULL, &context, &error));
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  must(hvd_topology_get(context, &topology, &error));
  const int32_t rank = topology.rank, size = topology.size;
  group(context, rank);
  const int64_t rows = gather(context, rank);

  /* Asynchronous: start, do something else, then wait. */
  double numbers[3] = {0.0, 1.0, 2.0};
  const int64_t shape[1] = {3};
  const hvd_tensor tensor = tensor_of(numbers, shape, 1, HVD_FLOAT64);
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = "later";
  hvd_handle *handle = NULL;
  must(hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &error));
  must(hvd_wait(handle, -1, &error));
  hvd_handle_free(handle);
  printf("rank %d: later [%.1f, %.1f, %.1f]\n", rank, numbers[0], numbers[1], numbers[2]);

  hvd_context_free(context);
  return rows == size * (size + 1) / 2 && numbers[2] == 2.0 * size ? 0 : 1;
}
