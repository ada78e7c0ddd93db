/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank contributes its number + 1; every rank prints the sum. Start it alone, or `horovodrun -np 2 ./allreduce`. */
#include <hvd/hvd.h>
#include <stdio.h>

static int fail(const char *what, const hvd_error *error) {
  fprintf(stderr, "%s: %s: %s\n", what, hvd_status_name(error->status), error->message);
  return 1;
}

int main(void) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_context *context = NULL;
  if (hvd_init(NULL, &context, &error) != HVD_OK) return fail("init", &error);

  hvd_topology topology = HVD_TOPOLOGY_INIT;
  if (hvd_topology_get(context, &topology, &error) != HVD_OK) return fail("topology", &error);

  float data[2] = {(float)topology.rank + 1.0f, 1.0f};
  const int64_t shape[1] = {2};
  const hvd_tensor tensor = {data, shape, 1, HVD_FLOAT32, HVD_CPU, 0, {0, 0}};
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = "data";
  hvd_handle *handle = NULL;
  if (hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &error) != HVD_OK) return fail("submit", &error);
  if (hvd_wait(handle, -1, &error) != HVD_OK) return fail("allreduce", &error);
  hvd_handle_free(handle);
  printf("rank %d of %d: sum %g from %g ranks\n", topology.rank, topology.size, data[0], data[1]);

  if (hvd_shutdown(context, -1, &error) != HVD_OK) return fail("shutdown", &error);
  hvd_context_free(context);
  return 0;
}
