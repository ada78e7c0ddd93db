/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank says who and where it is: `horovodrun -np 2 ./hello`. */
#define _POSIX_C_SOURCE 200112L
#include <hvd/hvd.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_context *context = NULL;
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  if (hvd_init(NULL, &context, &error) != HVD_OK ||
      hvd_topology_get(context, &topology, &error) != HVD_OK) {
    fprintf(stderr, "%s: %s\n", hvd_status_name(error.status), error.message);
    return 1;
  }
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  printf("rank %d of %d on %s\n", topology.rank, topology.size, host);
  hvd_context_free(context);
  return 0;
}
