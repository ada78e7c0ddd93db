/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of the header with every kind of wrong argument: the right status, a message with
 * what was found and what is allowed, outputs untouched, no crash, and the context works
 * afterwards. Errors between ranks are in tests/vectors.
 */
#include "check.h"

#define UNTOUCHED ((void *)(uintptr_t)0x5a5a5a5a5a5a5a5aU)

static hvd_context *context; /* a job of one rank, shared by the tests of this file */
static hvd_error error;

/* Checks a refusal: status, error struct, and that the message has both texts (NULL: any). */
static void refused(int line, const char *call, hvd_status expected, hvd_status got,
                    const char *has, const char *also) {
  if (got != expected) {
    check_failed(__FILE__, line, "%s: expected %s, got %s (%s)", call, hvd_status_name(expected),
                 hvd_status_name(got), error.message);
    return;
  }
  size_t length = strnlen(error.message, sizeof error.message);
  if (error.status != expected)
    check_failed(__FILE__, line, "%s: error.status is %d", call, error.status);
  if (length == 0 || length == sizeof error.message || strchr(error.message, '\n') ||
      error.message[length - 1] == '.')
    check_failed(__FILE__, line, "%s: not a one-line message without a full stop: \"%s\"", call,
                 error.message);
  if ((has && !strstr(error.message, has)) || (also && !strstr(error.message, also)))
    check_failed(__FILE__, line, "%s: message lacks \"%s\" or \"%s\": %s", call, has ? has : "",
                 also ? also : "", error.message);
}

#define REFUSED(status, call, has, also)                         \
  do {                                                           \
    error = (hvd_error)HVD_ERROR_INIT;                           \
    hvd_status refused_status = (call);                          \
    refused(__LINE__, #call, status, refused_status, has, also); \
  } while (0)

/* ---- hvd_init ---- */

static hvd_init_options init_options(void) {
  static char job[64];
  hvd_init_options options = HVD_INIT_OPTIONS_INIT;
  options.rank = 0;
  options.size = 1;
  options.rendezvous = job_name(job, sizeof job);
  return options;
}

static void init_refused(int line, hvd_status status, const hvd_init_options *options,
                         const char *has, const char *also) {
  hvd_context *out = UNTOUCHED;
  error = (hvd_error)HVD_ERROR_INIT;
  hvd_status got = hvd_init(options, &out, &error);
  refused(line, "hvd_init", status, got, has, also);
  if (out != UNTOUCHED) check_failed(__FILE__, line, "hvd_init changed *out_context");
  out = UNTOUCHED;
  /* the same without an error struct */
  if (got != HVD_OK) CHECK_INT(got, hvd_init(options, &out, NULL));
}
#define INIT_REFUSED(...) init_refused(__LINE__, __VA_ARGS__)

static void init_arguments(void) {
  hvd_init_options options = init_options();
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_init(&options, NULL, &error), "out_context", "NULL");
  options.rank = -2;
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "rank", "-2");
  options.rank = 1;
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "rank is 1", "size is 1");
  options = init_options();
  options.size = -1;
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "size", "-1");
  options = init_options();
  options.flags = 1;
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "flags", "1");
  options = init_options();
  options.rendezvous = "carrier-pigeon://coop";
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "carrier-pigeon", "mem://");
}

static void init_options_and_store(void) {
  hvd_init_options options = init_options();
  options.option_count = 1;
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "options", "NULL");
  hvd_option item = {"no_such_option", "1"};
  options.options = &item;
  INIT_REFUSED(HVD_ERR_NOT_FOUND, &options, "no_such_option", NULL);
  item.name = NULL;
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "name", "NULL");
  item.name = "op_timeout";
  item.value = NULL;
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "value", "NULL");
  item.value = "soon";
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "op_timeout", "soon");

  hvd_store store = HVD_STORE_INIT;
  options = init_options();
  options.rendezvous = NULL;
  options.store = &store;
  INIT_REFUSED(HVD_ERR_INVALID_ARGUMENT, &options, "store", "NULL");
  store.struct_size = 0;
  INIT_REFUSED(HVD_ERR_VERSION, &options, "0", "48");
}

/* A struct of a later version: what this library knows, then something it does not. */
typedef struct later_init_options {
  hvd_init_options known;
  int64_t later[2];
} later_init_options;

static void init_struct_sizes(void) {
  hvd_init_options options = init_options();
  const uint32_t wrong[] = {0, 1, 4, (uint32_t)sizeof options - 8};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    char found[16];
    snprintf(found, sizeof found, "%u", wrong[i]);
    options.struct_size = wrong[i];
    INIT_REFUSED(HVD_ERR_VERSION, &options, found, "72");
  }
  later_init_options later = {init_options(), {0, 1}};
  later.known.struct_size = sizeof later;
  INIT_REFUSED(HVD_ERR_VERSION, &later.known, "88", "72");
  later.later[1] = 0;
  hvd_context *out = NULL;
  CHECK_STATUS(HVD_OK, hvd_init(&later.known, &out, &error));
  hvd_context_free(out);
}

/* ---- context, topology, options, metrics ---- */

static void null_contexts(void) {
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  const hvd_topology before = topology;
  hvd_process_set *set = UNTOUCHED;
  int32_t number = 77;
  size_t count = 77;
  char text[8] = "before";
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_shutdown(NULL, 0, &error), "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_context_status(NULL, &error), "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_topology_get(NULL, &topology, &error), "context", "NULL");
  hvd_membership membership = HVD_MEMBERSHIP_INIT;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_membership_get(NULL, &membership, &error), "context",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_membership_leave(NULL, &error), "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_create(NULL, &number, 1, &set, &error),
          "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_find(NULL, 0, &set, &error), "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_ids(NULL, &number, &count, &error), "context",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_completions_fd(NULL, &number, &error), "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_burst_begin(NULL, &error), "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_burst_end(NULL, &error), "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_option_get(NULL, "op_timeout", text, &count, &error),
          "context", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_option_set(NULL, "op_timeout", "1", &error), "context",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_metrics_snapshot(NULL, NULL, &count, &error), "context",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_histograms_snapshot(NULL, NULL, &count, &error), "context",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_records_snapshot(NULL, 0, NULL, &count, &error), "context",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_record_arrivals(NULL, 1, NULL, &count, &error), "set",
          "NULL");
  CHECK(memcmp(&topology, &before, sizeof before) == 0);
  CHECK(set == UNTOUCHED && number == 77 && count == 77 && strcmp(text, "before") == 0);
  CHECK(hvd_process_set_world(NULL) == NULL);
  CHECK(hvd_completions_pop(NULL) == NULL);
  hvd_context_free(NULL);
  hvd_process_set_free(NULL);
  hvd_handle_free(NULL);
}

static void topology_arguments(void) {
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_topology_get(context, NULL, &error), "out", "NULL");
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  const uint32_t wrong[] = {0, 4, (uint32_t)sizeof topology - 4};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    topology = (hvd_topology){wrong[i], 77, 77, 77, 77, 77, 77, 77};
    const hvd_topology before = topology;
    REFUSED(HVD_ERR_VERSION, hvd_topology_get(context, &topology, &error), "32", NULL);
    CHECK(memcmp(&topology, &before, sizeof before) == 0);
  }
}

static void membership_arguments(void) {
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_membership_get(context, NULL, &error), "out", "NULL");
  hvd_membership membership = {4, 77, 77, 77, 77};
  REFUSED(HVD_ERR_VERSION, hvd_membership_get(context, &membership, &error), "24", NULL);
  CHECK(membership.changes == 77 && membership.epoch == 77 && membership.synchronize == 77);
  membership.struct_size = (uint32_t)sizeof membership;
  CHECK(hvd_membership_get(context, &membership, &error) == HVD_OK);
  CHECK(membership.changes == 0 && membership.epoch == 0 && membership.synchronize == 0);
  REFUSED(HVD_ERR_INVALID_STATE, hvd_membership_leave(context, &error), "fixed", NULL);
}

static void option_arguments(void) {
  char text[256] = "before";
  size_t size = sizeof text;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_option_get(context, NULL, text, &size, &error), "name",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_option_get(context, "op_timeout", text, NULL, &error),
          "size", "NULL");
  REFUSED(HVD_ERR_NOT_FOUND, hvd_option_get(context, "no_such_option", text, &size, &error),
          "no_such_option", NULL);
  CHECK(size == sizeof text && strcmp(text, "before") == 0);

  size_t needed = 0;
  CHECK_STATUS(HVD_OK, hvd_option_get(context, "op_timeout", NULL, &needed, &error));
  CHECK(needed >= 2);
  size = needed - 1;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_option_get(context, "op_timeout", text, &size, &error),
          NULL, NULL);
  CHECK(size == needed && strcmp(text, "before") == 0);
  CHECK_STATUS(HVD_OK, hvd_option_get(context, "op_timeout", text, &size, &error));
  CHECK_INT(needed, strlen(text) + 1);

  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_option_set(context, NULL, "1", &error), "name", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_option_set(context, "op_timeout", NULL, &error), "value",
          "NULL");
  REFUSED(HVD_ERR_NOT_FOUND, hvd_option_set(context, "no_such_option", "1", &error),
          "no_such_option", NULL);
  REFUSED(HVD_ERR_INVALID_STATE, hvd_option_set(context, "start_timeout", "9", &error),
          "start_timeout", NULL);
  CHECK(hvd_option_name(1000000) == NULL && hvd_option_default(1000000) == NULL &&
        hvd_option_help(1000000) == NULL);
}

static void metric_arguments(void) {
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_metrics_snapshot(context, NULL, NULL, &error),
          "metric_count", "NULL");
  size_t all = 0;
  CHECK_STATUS(HVD_OK, hvd_metrics_snapshot(context, NULL, &all, &error));
  CHECK(all > 1);
  hvd_metric metric = {"before", "1", 7.0, 7};
  size_t count = 1;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_metrics_snapshot(context, &metric, &count, &error), "1",
          NULL);
  CHECK(count == all && metric.value == 7.0 && metric.reserved == 7 &&
        strcmp(metric.name, "before") == 0);
}

static void histogram_arguments(void) {
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_histograms_snapshot(context, NULL, NULL, &error),
          "histogram_count", "NULL");
  hvd_histogram histogram = {.name = "before"};
  size_t count = 1;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_histograms_snapshot(context, &histogram, &count, &error),
          "histograms", "room for 1");
  CHECK(strcmp(histogram.name, "before") == 0);
  CHECK(hvd_metric_help(NULL) == NULL && hvd_metric_help("nonsense") == NULL);
  CHECK(strstr(hvd_metric_help("cache_hits"), "remembered") != NULL);
  CHECK(strstr(hvd_metric_help("group_size"), "group") != NULL);
}

static void record_arguments(void) {
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_records_snapshot(context, 0, NULL, NULL, &error),
          "record_count", "NULL");
  hvd_process_set *world = hvd_process_set_world(context);
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_record_arrivals(world, 1, NULL, NULL, &error), "time_count",
          "NULL");
  int64_t time = 7;
  size_t count = 1;
  REFUSED(HVD_ERR_NOT_FOUND, hvd_record_arrivals(world, 1000000, &time, &count, &error), "1000000",
          NULL);
  REFUSED(HVD_ERR_NOT_FOUND, hvd_record_arrivals(world, 0, &time, &count, &error), "use 0", NULL);
  CHECK(time == 7 && count == 1);
}

/* ---- process sets ---- */

static void create_refused(int line, hvd_status status, const int32_t *ranks, size_t count,
                           const char *has, const char *also) {
  hvd_process_set *set = UNTOUCHED;
  error = (hvd_error)HVD_ERROR_INIT;
  refused(line, "hvd_process_set_create", status,
          hvd_process_set_create(context, ranks, count, &set, &error), has, also);
  if (set != UNTOUCHED) check_failed(__FILE__, line, "hvd_process_set_create changed *out_set");
}
#define CREATE_REFUSED(...) create_refused(__LINE__, __VA_ARGS__)

static void process_set_arguments(void) {
  const int32_t zero = 0, negative = -1, beyond = 1, twice[2] = {0, 0};
  CREATE_REFUSED(HVD_ERR_INVALID_ARGUMENT, NULL, 1, "ranks", NULL);
  CREATE_REFUSED(HVD_ERR_INVALID_ARGUMENT, &zero, 0, "ranks", NULL);
  CREATE_REFUSED(HVD_ERR_INVALID_ARGUMENT, &negative, 1, "-1", NULL);
  CREATE_REFUSED(HVD_ERR_INVALID_ARGUMENT, &beyond, 1, "rank 1", NULL);
  CREATE_REFUSED(HVD_ERR_INVALID_ARGUMENT, twice, 2, "rank 0", "twice");
  CREATE_REFUSED(HVD_ERR_ALREADY_EXISTS, &zero, 1, "0", NULL);
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_create(context, &zero, 1, NULL, &error),
          "out_set", "NULL");

  hvd_process_set *set = UNTOUCHED;
  REFUSED(HVD_ERR_NOT_FOUND, hvd_process_set_find(context, 77, &set, &error), "77", NULL);
  REFUSED(HVD_ERR_NOT_FOUND, hvd_process_set_find(context, -1, &set, &error), "-1", NULL);
  CHECK(set == UNTOUCHED);
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_find(context, 0, NULL, &error), "out_set",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_destroy(NULL, &error), "set", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_destroy(hvd_process_set_world(context), &error),
          "0", NULL);
  CHECK_INT(-1, hvd_process_set_id(NULL));
  CHECK_INT(-1, hvd_process_set_rank(NULL));
  CHECK(hvd_process_set_size(NULL) <= 0);
}

static void process_set_queries(void) {
  hvd_process_set *world = hvd_process_set_world(context);
  int32_t numbers[2] = {77, 77};
  size_t count = 0;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_ranks(NULL, numbers, &count, &error), "set",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_ranks(world, numbers, NULL, &error),
          "rank_count", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_ranks(world, numbers, &count, &error), "0",
          "1");
  CHECK(count == 1 && numbers[0] == 77);
  count = 0;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_ids(context, numbers, NULL, &error), "id_count",
          "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_process_set_ids(context, numbers, &count, &error), "0",
          "1");
  CHECK(count == 1 && numbers[0] == 77);
  count = 2;
  CHECK_STATUS(HVD_OK, hvd_process_set_ids(context, numbers, &count, &error));
  CHECK(count == 1 && numbers[0] == 0 && numbers[1] == 77);
  count = 99;
  CHECK_STATUS(HVD_OK, hvd_process_set_ranks(world, NULL, &count, &error));
  CHECK_INT(1, count);
}

/* ---- handles ---- */

static void null_handles(void) {
  hvd_tensor tensor;
  memset(&tensor, 0x5a, sizeof tensor);
  const hvd_tensor before = tensor;
  int64_t split = 77;
  size_t count = 1;
  int32_t rank = 77;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_wait(NULL, 0, &error), "handle", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_test(NULL, &error), "handle", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_then(NULL, NULL, NULL, &error), "handle", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_output(NULL, 0, &tensor, &error), "handle", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_received_splits(NULL, &split, &count, &error),
          "handle", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_last_joined_rank(NULL, &rank, &error), "handle",
          "NULL");
  CHECK(memcmp(&tensor, &before, sizeof before) == 0 && split == 77 && count == 1 && rank == 77);
  CHECK_INT(0, hvd_handle_output_count(NULL));
  CHECK_STATUS(HVD_ERR_INVALID_ARGUMENT, hvd_wait(NULL, 0, NULL));
}

static void handle_arguments(void) {
  float data[2] = {1, 2};
  const int64_t length = 2;
  const hvd_tensor tensor = vector_of(data, &length, HVD_FLOAT32);
  hvd_handle *handle = NULL;
  CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, NULL, NULL, &handle, &error));
  CHECK_STATUS(HVD_OK, hvd_wait(handle, -1, &error));
  hvd_tensor out;
  memset(&out, 0x5a, sizeof out);
  const hvd_tensor before = out;
  int64_t split = 77;
  size_t count = 1;
  int32_t rank = 77;
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_output(handle, 1, &out, &error), "1", NULL);
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_output(handle, 0, NULL, &error), "out", "NULL");
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_received_splits(handle, &split, &count, &error),
          "alltoall", NULL);
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_last_joined_rank(handle, &rank, &error), "join",
          NULL);
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_handle_then(handle, NULL, NULL, &error), "fn", "NULL");
  CHECK(memcmp(&out, &before, sizeof before) == 0 && split == 77 && count == 1 && rank == 77);
  hvd_handle_free(handle);
  REFUSED(HVD_ERR_INVALID_ARGUMENT, hvd_completions_fd(context, NULL, &error), "fd", "NULL");
}

static void data_functions(void) {
  CHECK_INT(0, hvd_dtype_size(-1));
  CHECK_INT(0, hvd_dtype_size(30));
  CHECK(strcmp(hvd_dtype_name(99), "unknown") == 0);
  CHECK(strcmp(hvd_status_name(-19), "HVD_ERR_UNKNOWN") == 0);
  CHECK_INT(0, hvd_has_feature("antigravity"));
  CHECK_INT(0, hvd_has_feature(NULL));
}

/* An error struct of the wrong size is not written to; the call itself says what it would have
 * said. */
static void error_struct_sizes(void) {
  const uint32_t wrong[] = {0, 4, 1020};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    hvd_error odd = HVD_ERROR_INIT;
    memset(&odd, 0x5a, sizeof odd);
    odd.struct_size = wrong[i];
    const hvd_error before = odd;
    CHECK(hvd_context_status(NULL, &odd) < 0);
    CHECK(memcmp(&odd, &before, sizeof before) == 0);
  }
}

int main(void) {
  context = open_alone();
  RUN(init_arguments);
  RUN(init_options_and_store);
  RUN(init_struct_sizes);
  RUN(null_contexts);
  RUN(topology_arguments);
  RUN(membership_arguments);
  RUN(option_arguments);
  RUN(metric_arguments);
  RUN(histogram_arguments);
  RUN(record_arguments);
  RUN(process_set_arguments);
  RUN(process_set_queries);
  RUN(null_handles);
  RUN(handle_arguments);
  RUN(data_functions);
  RUN(error_struct_sizes);
  CHECK_STATUS(HVD_OK, hvd_context_status(context, &error));
  hvd_context_free(context);
  return check_result();
}
