/* SPDX-License-Identifier: Apache-2.0 */
/* Even and odd ranks reduce apart, at the same time: `horovodrun -np 4 ./process_sets`. */
#include <hvd/hvd.h>
#include <stdio.h>
#include <stdlib.h>

static hvd_error error = HVD_ERROR_INIT;

static void must(hvd_status status) {
  if (status == HVD_OK) return;
  fprintf(stderr, "%s: %s\n", hvd_status_name(status), error.message);
  exit(1);
}

/* Every rank creates every set, also those it is not in, in the same order. */
static hvd_process_set *every_second(hvd_context *context, int32_t first, int32_t size) {
  int32_t *ranks = malloc((size_t)size * sizeof *ranks);
  if (ranks == NULL) exit(1);
  size_t count = 0;
  for (int32_t rank = first; rank < size; rank += 2) ranks[count++] = rank;
  hvd_process_set *set = NULL;
  must(hvd_process_set_create(context, ranks, count, &set, &error));
  free(ranks);
  return set;
}

int main(void) {
  hvd_context *context = NULL;
  must(hvd_init(NULL, &context, &error));
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  must(hvd_topology_get(context, &topology, &error));
  const int32_t rank = topology.rank, size = topology.size;
  if (size < 2) {
    fprintf(stderr, "start this with at least 2 ranks: horovodrun -np 4 ./process_sets\n");
    return 1;
  }
  hvd_process_set *even = every_second(context, 0, size), *odd = every_second(context, 1, size);

  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = "total";
  options.set = rank % 2 == 0 ? even : odd;
  int64_t total = rank;
  const int64_t shape[1] = {1};
  const hvd_tensor tensor = {&total, shape, 1, HVD_INT64, HVD_CPU, 0, {0, 0}};
  hvd_handle *handle = NULL;
  must(hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &error));
  must(hvd_wait(handle, -1, &error));
  hvd_handle_free(handle);

  int64_t expected = 0;
  printf("rank %d is %d of %d in [", rank, hvd_process_set_rank(options.set),
         hvd_process_set_size(options.set));
  for (int32_t member = rank % 2; member < size; member += 2) {
    printf("%s%d", member == rank % 2 ? "" : ", ", member);
    expected += member;
  }
  printf("]: sum of the ranks %d\n", (int)total);

  must(hvd_process_set_destroy(odd, &error));
  must(hvd_process_set_destroy(even, &error));
  hvd_context_free(context);
  return total == expected ? 0 : 1;
}
