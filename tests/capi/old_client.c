/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI gate 4: a program compiled with the header as version 1.0 released it, run against today's
 * library. It keeps to what a user of 1.0 could do, and must work unchanged as long as the
 * library's major version is 1.
 */
#include <hvd.h> /* of capi/abi/hvd-1.0, never of capi/include */
#include <stdio.h>
#include <string.h>

_Static_assert(HVD_VERSION_MAJOR == 1 && HVD_VERSION_MINOR == 0,
               "old_client.c must see the frozen header");
_Static_assert(sizeof(hvd_error) == 1024 && sizeof(hvd_tensor) == 48 && sizeof(hvd_option) == 16,
               "sizes of 1.0");
_Static_assert(sizeof(hvd_init_options) == 72 && sizeof(hvd_op_options) == 56, "sizes of 1.0");
_Static_assert(sizeof(hvd_topology) == 32 && sizeof(hvd_metric) == 32 && sizeof(hvd_store) == 48,
               "sizes of 1.0");

static int fail(const char *what, const hvd_error *error) {
  fprintf(stderr, "old client: %s: %s: %s\n", what, hvd_status_name(error->status), error->message);
  return 1;
}

int main(void) {
  hvd_error error = HVD_ERROR_INIT;
  if (hvd_version() / 10000 != 1) return fail("major version", &error);
  if (hvd_version() < HVD_VERSION) return fail("library older than the header", &error);

  hvd_init_options init = HVD_INIT_OPTIONS_INIT;
  init.rank = 0;
  init.size = 1;
  init.rendezvous = "mem://old_client";
  hvd_context *context = NULL;
  if (hvd_init(&init, &context, &error) != HVD_OK) return fail("hvd_init", &error);

  hvd_topology topology = HVD_TOPOLOGY_INIT;
  if (hvd_topology_get(context, &topology, &error) != HVD_OK)
    return fail("hvd_topology_get", &error);
  if (topology.rank != 0 || topology.size != 1) return fail("topology", &error);

  float data[3] = {1.0f, 2.0f, 3.0f};
  int64_t shape[1] = {3};
  hvd_tensor tensor = {data, shape, 1, HVD_FLOAT32, HVD_CPU, 0, {0, 0}};
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = "old";
  options.postscale = 2.0;
  hvd_handle *handle = NULL;
  if (hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &error) != HVD_OK)
    return fail("submit", &error);
  if (hvd_wait(handle, -1, &error) != HVD_OK) return fail("hvd_wait", &error);
  const float expected[3] = {2.0f, 4.0f, 6.0f};
  if (memcmp(data, expected, sizeof data) != 0) return fail("result", &error);
  hvd_handle_free(handle);

  if (hvd_shutdown(context, -1, &error) != HVD_OK) return fail("hvd_shutdown", &error);
  hvd_context_free(context);
  printf("a client of %s works with library %s\n", HVD_VERSION_STRING, hvd_version_string());
  return 0;
}
