/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective with every kind of wrong argument: refused at the call, message with what was
 * found and what is allowed, handle and buffers untouched, and the next operation works.
 */
#include "check.h"

#define UNTOUCHED ((hvd_handle *)(uintptr_t)0x5a5a5a5a5a5a5a5aU)

static hvd_context *context; /* a job of one rank */
static hvd_error error;

/* All operations behind one signature, so that each rule is tested on each of them. `splits` is for
 * alltoall only. */
typedef hvd_status (*submit_fn)(hvd_context *, const hvd_tensor *, const hvd_tensor *,
                                const hvd_op_options *, hvd_handle **, hvd_error *);

static hvd_status alltoall_equal(hvd_context *c, const hvd_tensor *in, const hvd_tensor *out,
                                 const hvd_op_options *o, hvd_handle **h, hvd_error *e) {
  return hvd_alltoallv_async(c, in, NULL, out, o, h, e);
}
static hvd_status group_allreduce(hvd_context *c, const hvd_tensor *in, const hvd_tensor *out,
                                  const hvd_op_options *o, hvd_handle **h, hvd_error *e) {
  return hvd_grouped_allreduce_async(c, in, out, 1, o, h, e);
}
static hvd_status group_allgather(hvd_context *c, const hvd_tensor *in, const hvd_tensor *out,
                                  const hvd_op_options *o, hvd_handle **h, hvd_error *e) {
  return hvd_grouped_allgatherv_async(c, in, out, 1, o, h, e);
}
static hvd_status group_reducescatter(hvd_context *c, const hvd_tensor *in, const hvd_tensor *out,
                                      const hvd_op_options *o, hvd_handle **h, hvd_error *e) {
  return hvd_grouped_reducescatter_async(c, in, out, 1, o, h, e);
}
static hvd_status barrier(hvd_context *c, const hvd_tensor *in, const hvd_tensor *out,
                          const hvd_op_options *o, hvd_handle **h, hvd_error *e) {
  (void)in, (void)out;
  return hvd_barrier_async(c, o, h, e);
}
static hvd_status join(hvd_context *c, const hvd_tensor *in, const hvd_tensor *out,
                       const hvd_op_options *o, hvd_handle **h, hvd_error *e) {
  (void)in, (void)out;
  return hvd_join_async(c, o, h, e);
}

typedef struct operation {
  const char *name;
  submit_fn submit;
  /* takes tensors; needs a dimension 0; uses reduce_op; uses root */
  int tensors, rows, reduces, rooted;
} operation;

static const operation kOperations[] = {
    {"allreduce", hvd_allreduce_async, 1, 0, 1, 0},
    {"grouped_allreduce", group_allreduce, 1, 0, 1, 0},
    {"allgatherv", hvd_allgatherv_async, 1, 0, 0, 0},
    {"grouped_allgatherv", group_allgather, 1, 0, 0, 0},
    {"broadcast", hvd_broadcast_async, 1, 0, 0, 1},
    {"alltoallv", alltoall_equal, 1, 1, 0, 0},
    {"reducescatter", hvd_reducescatter_async, 1, 1, 1, 0},
    {"grouped_reducescatter", group_reducescatter, 1, 1, 1, 0},
    {"gatherv", hvd_gatherv_async, 1, 0, 0, 1},
    {"barrier", barrier, 0, 0, 0, 0},
    {"join", join, 0, 0, 0, 0},
};
static const operation *op; /* the one under test */

static float in_data[4], out_data[4];
static int64_t shape4[1] = {4};

static hvd_tensor good_input(void) { return vector_of(in_data, shape4, HVD_FLOAT32); }
static hvd_tensor good_output(void) { return vector_of(out_data, shape4, HVD_FLOAT32); }

static void reset(void) {
  for (int i = 0; i < 4; ++i) in_data[i] = (float)i + 1.0f, out_data[i] = -7.0f;
  error = (hvd_error)HVD_ERROR_INIT;
}

static void judge(int line, hvd_status expected, hvd_status got, const hvd_handle *handle,
                  const char *has, const char *also) {
  if (got != expected)
    check_failed(__FILE__, line, "%s: expected %s, got %s (%s)", op->name,
                 hvd_status_name(expected), hvd_status_name(got), error.message);
  else if (error.status != expected || (has && !strstr(error.message, has)) ||
           (also && !strstr(error.message, also)))
    check_failed(__FILE__, line, "%s: message lacks \"%s\" or \"%s\": %s", op->name, has ? has : "",
                 also ? also : "", error.message);
  if (handle != UNTOUCHED) check_failed(__FILE__, line, "%s: *out_handle changed", op->name);
  for (int i = 0; i < 4; ++i)
    if (in_data[i] != (float)i + 1.0f || out_data[i] != -7.0f)
      check_failed(__FILE__, line, "%s: a buffer changed", op->name);
}

/* Submits what must be refused. in, out and options may be NULL. */
static void refuse(int line, hvd_status expected, hvd_context *on, const hvd_tensor *in,
                   const hvd_tensor *out, const hvd_op_options *options, const char *has,
                   const char *also) {
  reset();
  hvd_handle *handle = UNTOUCHED;
  hvd_status got = op->submit(on, in, out, options, &handle, &error);
  judge(line, expected, got, handle, has, also);
  if (got == HVD_OK) { /* wrongly accepted: its buffers must live until it has ended */
    (void)hvd_wait(handle, -1, NULL);
    hvd_handle_free(handle);
  }
  handle = UNTOUCHED;
  if (got != HVD_OK && op->submit(on, in, out, options, &handle, NULL) != got)
    check_failed(__FILE__, line, "%s: another status without an error struct", op->name);
}
#define REFUSE(...) refuse(__LINE__, __VA_ARGS__)

/* Submits what must work, and waits for it. */
static void accept_(int line, const hvd_tensor *in, const hvd_tensor *out,
                    const hvd_op_options *options) {
  reset();
  hvd_handle *handle = NULL;
  hvd_status status = op->submit(context, in, out, options, &handle, &error);
  if (status == HVD_OK) status = hvd_wait(handle, -1, &error);
  if (status != HVD_OK)
    check_failed(__FILE__, line, "%s: %s: %s", op->name, hvd_status_name(status), error.message);
  hvd_handle_free(handle);
}
#define ACCEPT(...) accept_(__LINE__, __VA_ARGS__)

static void pointers(void) {
  const hvd_tensor in = good_input(), out = good_output();
  REFUSE(HVD_ERR_INVALID_ARGUMENT, NULL, &in, &out, NULL, "context", "NULL");
  if (op->tensors) REFUSE(HVD_ERR_INVALID_ARGUMENT, context, NULL, &out, NULL, "input", "NULL");
  reset();
  hvd_status got = op->submit(context, &in, &out, NULL, NULL, &error);
  judge(__LINE__, HVD_ERR_INVALID_ARGUMENT, got, UNTOUCHED, "out_handle", "NULL");
  ACCEPT(&in, NULL, NULL);
}

static void tensors(void) {
  if (!op->tensors) return;
  const hvd_tensor out = good_output();
  hvd_tensor in = good_input();
  in.dtype = 30;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "dtype is 30", "29");
  in.dtype = -1;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "dtype is -1", "29");
  in = good_input();
  in.ndim = -1;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "ndim is -1", "32");
  int64_t ones[33];
  for (int i = 0; i < 33; ++i) ones[i] = 1;
  in.shape = ones;
  in.ndim = 33;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "ndim is 33", "32");
  in.ndim = 32;
  ACCEPT(&in, NULL, NULL);
  in = good_input();
  in.shape = NULL;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "shape", "NULL");
  in = good_input();
  in.data = NULL;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "data", "NULL");
}

static void shapes(void) {
  if (!op->tensors) return;
  const hvd_tensor out = good_output();
  hvd_tensor in = good_input();
  const int64_t negative[1] = {-3}, huge[2] = {INT64_C(1) << 61, 16}, zero[1] = {0};
  in.shape = negative;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "-3", NULL);
  in.shape = huge;
  in.ndim = 2;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "2^63", NULL);
  in = good_input();
  in.data = NULL;
  in.shape = zero;
  ACCEPT(&in, NULL, NULL); /* no elements: data may be NULL */
  in = good_input();
  in.ndim = 0;
  in.shape = NULL;
  if (op->rows)
    REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, NULL, NULL, "scalar", NULL);
  else
    ACCEPT(&in, NULL, NULL);
}

static void devices(void) {
  if (!op->tensors) return;
  hvd_tensor in = good_input();
  in.device_type = 7;
  REFUSE(HVD_ERR_UNSUPPORTED, context, &in, NULL, NULL, "device type is 7", "1");
  in = good_input();
  in.device_id = 3;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, NULL, NULL, "3", "0");
  in = good_input();
  in.reserved[1] = 9;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, NULL, NULL, "reserved", NULL);
}

/* Input and output that share memory without being in place. Where the right place depends on other
   ranks the operation may also fail when it runs. */
static void overlap(void) {
  float both[5] = {0};
  const hvd_tensor low = vector_of(both, shape4, HVD_FLOAT32),
                   high = vector_of(both + 1, shape4, HVD_FLOAT32);
  if (!strstr(op->name, "allgather")) {
    REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &low, &high, NULL, "overlap", NULL);
    return;
  }
  reset();
  hvd_handle *handle = NULL;
  hvd_status status = op->submit(context, &low, &high, NULL, &handle, &error);
  if (status == HVD_OK) status = hvd_wait(handle, -1, &error);
  if (status != HVD_ERR_INVALID_ARGUMENT)
    check_failed(__FILE__, __LINE__, "%s: overlapping buffers: %s", op->name,
                 hvd_status_name(status));
  hvd_handle_free(handle);
}

static void outputs(void) {
  if (!op->tensors) return;
  const hvd_tensor in = good_input();
  hvd_tensor out = good_output();
  const int64_t three[1] = {3};
  out.dtype = HVD_INT32;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "int32", "float32");
  out = good_output();
  out.data = NULL;
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "data", "NULL");
  out = good_output();
  out.shape = three;
  /* What the output's dimension 0 must be depends on the other ranks for gathers and alltoall: they
   * fail when they run. */
  if (op->reduces || !strcmp(op->name, "broadcast"))
    REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, NULL, "3", "4");
  overlap();
}

static void option_struct(void) {
  const hvd_tensor in = good_input();
  struct {
    hvd_op_options known;
    int64_t later[2];
  } later = {HVD_OP_OPTIONS_INIT, {0, 5}};
  /* The oldest client's struct ends before its stream. */
  const uint32_t oldest = (uint32_t)offsetof(hvd_op_options, stream);
  char least[16], today[16], found[16];
  snprintf(least, sizeof least, "%u", oldest);
  snprintf(today, sizeof today, "%u", (uint32_t)sizeof(hvd_op_options));
  const uint32_t wrong[] = {0, 4, oldest - 8};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    snprintf(found, sizeof found, "%u", wrong[i]);
    later.known.struct_size = wrong[i];
    REFUSE(HVD_ERR_VERSION, context, &in, NULL, &later.known, found, least);
  }
  later.known.struct_size = oldest;
  ACCEPT(&in, NULL, &later.known);
  later.known.struct_size = sizeof later;
  snprintf(found, sizeof found, "%zu", sizeof later);
  REFUSE(HVD_ERR_VERSION, context, &in, NULL, &later.known, found, today);
  later.later[1] = 0;
  ACCEPT(&in, NULL, &later.known);
}

static void names(void) {
  const hvd_tensor in = good_input();
  char *name = malloc(4098);
  memset(name, 'n', 4097);
  name[4097] = '\0';
  hvd_op_options options = named(name);
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, NULL, &options, "4097", "4096");
  name[4096] = '\0';
  ACCEPT(&in, NULL, &options);
  free(name);
}

static void reductions(void) {
  const hvd_tensor in = good_input(), out = good_output();
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  if (op->reduces) {
    options.reduce_op = 6;
    REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, &options, "reduce_op is 6", "5");
    options.reduce_op = -1;
    REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, &options, "reduce_op is -1", "5");
    hvd_tensor integers = in;
    integers.dtype = HVD_INT32;
    options.reduce_op = HVD_ADASUM;
    REFUSE(HVD_ERR_UNSUPPORTED, context, &integers, NULL, &options, "adasum", NULL);
  }
  if (strstr(op->name, "reducescatter")) {
    options.reduce_op = HVD_ADASUM;
    REFUSE(HVD_ERR_UNSUPPORTED, context, &in, NULL, &options, "adasum", NULL);
  }
  if (op->rooted) {
    options.root = 1;
    REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, &options, "root is 1", "0");
    options.root = -1;
    REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, &options, "root is -1", "0");
  }
}

static void foreign_set(void) {
  const hvd_tensor in = good_input(), out = good_output();
  hvd_context *other = open_alone();
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.set = hvd_process_set_world(other);
  REFUSE(HVD_ERR_INVALID_ARGUMENT, context, &in, &out, &options, "context", NULL);
  hvd_context_free(other);
}

static void every_operation(void) {
  for (size_t i = 0; i < sizeof kOperations / sizeof *kOperations; ++i) {
    op = &kOperations[i];
    pointers();
    tensors();
    shapes();
    devices();
    outputs();
    option_struct();
    names();
    reductions();
    foreign_set();
  }
}

static void split_arguments(void) {
  static const operation kAlltoall = {"alltoallv", alltoall_equal, 1, 1, 0, 0};
  op = &kAlltoall;
  const hvd_tensor in = good_input();
  const int64_t splits[3] = {-1, 5, 3};
  const char *found[3] = {"-1", "5", NULL};
  for (int i = 0; i < 3; ++i) {
    reset();
    hvd_handle *handle = UNTOUCHED;
    hvd_status got =
        hvd_alltoallv_async(context, &in, &splits[i], NULL, NULL, i < 2 ? &handle : NULL, &error);
    judge(__LINE__, HVD_ERR_INVALID_ARGUMENT, got, handle, found[i], i == 1 ? "4" : NULL);
  }
}

static void group_arguments(void) {
  static const operation kGroup = {"grouped_allreduce", group_allreduce, 1, 0, 1, 0};
  op = &kGroup;
  hvd_tensor inputs[2] = {good_input(), good_input()};
  reset();
  hvd_handle *handle = UNTOUCHED;
  hvd_status got = hvd_grouped_allreduce_async(context, inputs, NULL, 0, NULL, &handle, &error);
  judge(__LINE__, HVD_ERR_INVALID_ARGUMENT, got, handle, "count", "0");
  inputs[1].ndim = 40;
  reset();
  got = hvd_grouped_allreduce_async(context, inputs, NULL, 2, NULL, &handle, &error);
  judge(__LINE__, HVD_ERR_INVALID_ARGUMENT, got, handle, "ndim is 40", "input 1");
}

/* ---- what needs a second rank ---- */

/* Waits for what was just submitted. A pointer to the handle, because the submit call stands in the
 * same argument list. */
static void wait_ok(int line, hvd_status submitted, hvd_handle **handle, const hvd_error *why) {
  hvd_error local = *why;
  hvd_status status = submitted == HVD_OK ? hvd_wait(*handle, -1, &local) : submitted;
  if (status != HVD_OK)
    check_failed(__FILE__, line, "%s: %s", hvd_status_name(status), local.message);
  hvd_handle_free(*handle);
}

static void two_ranks(int32_t rank, int32_t size, hvd_context *mine, void *argument) {
  (void)size, (void)argument;
  hvd_error why = HVD_ERROR_INIT;
  float data[1] = {1};
  const int64_t length = 1;
  const hvd_tensor tensor = vector_of(data, &length, HVD_FLOAT32);
  hvd_op_options options = named("twice"), gate = named("gate");
  hvd_handle *first = NULL, *second = UNTOUCHED, *gate_handle = NULL;
  hvd_tensor result = tensor;

  /* Rank 1 comes to "twice" only after the gate, so the first of rank 0 is surely still in flight.
   */
  if (rank == 0) {
    CHECK_STATUS(HVD_OK, hvd_allreduce_async(mine, &tensor, &tensor, &options, &first, &why));
    CHECK_STATUS(HVD_ERR_ALREADY_EXISTS,
                 hvd_allreduce_async(mine, &tensor, NULL, &options, &second, &why));
    CHECK(second == UNTOUCHED && strstr(why.message, "\"twice\""));
    CHECK_STATUS(HVD_ERR_INVALID_STATE, hvd_handle_output(first, 0, &result, &why));
    CHECK_STATUS(HVD_PENDING, hvd_test(first, &why));
    wait_ok(__LINE__, hvd_barrier_async(mine, &gate, &gate_handle, &why), &gate_handle, &why);
  } else {
    wait_ok(__LINE__, hvd_barrier_async(mine, &gate, &gate_handle, &why), &gate_handle, &why);
    CHECK_STATUS(HVD_OK, hvd_allreduce_async(mine, &tensor, &tensor, &options, &first, &why));
  }
  wait_ok(__LINE__, HVD_OK, &first, &why);
  CHECK(data[0] == 2.0f);

  /* A set without this rank, and a set that was destroyed. */
  const int32_t members[1] = {0};
  hvd_process_set *set = NULL, *again = NULL;
  CHECK_STATUS(HVD_OK, hvd_process_set_create(mine, members, 1, &set, &why));
  CHECK_STATUS(HVD_OK, hvd_process_set_find(mine, hvd_process_set_id(set), &again, &why));
  options.set = again;
  second = UNTOUCHED;
  if (rank == 1) {
    CHECK_STATUS(HVD_ERR_INVALID_ARGUMENT,
                 hvd_allreduce_async(mine, &tensor, NULL, &options, &second, &why));
    CHECK(second == UNTOUCHED && strstr(why.message, "rank 1"));
  }
  CHECK_STATUS(HVD_OK, hvd_process_set_destroy(set, &why));
  CHECK_INT(-1, hvd_process_set_id(again));
  CHECK_STATUS(HVD_ERR_INVALID_STATE,
               hvd_allreduce_async(mine, &tensor, NULL, &options, &second, &why));
  CHECK_STATUS(HVD_ERR_INVALID_STATE, hvd_process_set_destroy(again, &why));
  CHECK(second == UNTOUCHED);
  hvd_process_set_free(again);
}

static void between_two_ranks(void) { run_world(2, two_ranks, NULL); }

int main(void) {
  context = open_alone();
  RUN(every_operation);
  RUN(split_arguments);
  RUN(group_arguments);
  RUN(between_two_ranks);
  CHECK_STATUS(HVD_OK, hvd_context_status(context, &error));
  hvd_context_free(context);
  return check_result();
}
