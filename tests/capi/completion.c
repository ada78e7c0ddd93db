/* SPDX-License-Identifier: Apache-2.0 */
/* How a caller learns that an operation has ended: waiting with a limit, callbacks, the completion
 * descriptor. */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static const int64_t kOne = 1;

/* What a callback saw. */
typedef struct seen {
  atomic_int calls, overlaps;
  atomic_int status;
  _Atomic(hvd_handle *) handle;
  pthread_t caller;
  atomic_int on_callers_thread;
} seen;

static atomic_int inside; /* callbacks running now, over all contexts of the world under test */

static void record(void *user_data, hvd_handle *handle, hvd_status status) {
  seen *s = user_data;
  if (pthread_equal(pthread_self(), s->caller)) atomic_store(&s->on_callers_thread, 1);
  atomic_store(&s->status, status);
  atomic_store(&s->handle, handle);
  /* Valid inside even if it was freed. */
  if (hvd_test(handle, NULL) != status) atomic_fetch_add(&s->overlaps, 1);
  atomic_fetch_add(&s->calls, 1);
}

/* Waits until `counter` has reached `value`, at most 5 s. */
static void reach(atomic_int *counter, int value) {
  int64_t limit = now_ms() + 5000;
  while (atomic_load(counter) < value && now_ms() < limit) usleep(200);
  CHECK_INT(value, atomic_load(counter));
}

static hvd_handle *start(hvd_context *context, const char *name, float *value) {
  const hvd_tensor tensor = vector_of(value, &kOne, HVD_FLOAT32);
  const hvd_op_options options = named(name);
  hvd_error why = HVD_ERROR_INIT;
  hvd_handle *handle = NULL;
  CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &why));
  return handle;
}

static void gate(hvd_context *context, const char *name) {
  const hvd_op_options options = named(name);
  hvd_handle *handle = NULL;
  CHECK_STATUS(HVD_OK, hvd_barrier_async(context, &options, &handle, NULL));
  CHECK_STATUS(HVD_OK, hvd_wait(handle, -1, NULL));
  hvd_handle_free(handle);
}

/* ---- waiting ---- */

static void waiting(int32_t rank, int32_t size, hvd_context *context, void *argument) {
  (void)size, (void)argument;
  float value = 1;
  hvd_handle *handle = NULL;
  if (rank == 0) {
    hvd_error why = HVD_ERROR_INIT;
    handle = start(context, "late", &value);
    CHECK_STATUS(HVD_PENDING, hvd_test(handle, &why));
    CHECK_STATUS(HVD_PENDING, hvd_wait(handle, 0, &why));
    int64_t begin = now_ms();
    CHECK_STATUS(HVD_PENDING, hvd_wait(handle, INT64_C(100000000), &why));
    int64_t waited = now_ms() - begin;
    if (waited < 95 || waited > 3000)
      check_failed(__FILE__, __LINE__, "waited %lld ms for 100", (long long)waited);
    CHECK_INT(0, why.status); /* pending is no error */
    gate(context, "gate");
  } else {
    gate(context, "gate");
    handle = start(context, "late", &value);
  }
  CHECK_STATUS(HVD_OK, hvd_wait(handle, -1, NULL));
  CHECK_STATUS(HVD_OK, hvd_wait(handle, 0, NULL));
  CHECK_STATUS(HVD_OK, hvd_test(handle, NULL));
  CHECK(value == 2.0f);
  hvd_handle_free(handle);
}
static void wait_with_a_limit(void) { run_world(2, waiting, NULL); }

static void deadline(int32_t rank, int32_t size, hvd_context *context, void *argument) {
  (void)size, (void)argument;
  float value = 1;
  hvd_error why = HVD_ERROR_INIT;
  if (rank == 0) {
    const hvd_tensor tensor = vector_of(&value, &kOne, HVD_FLOAT32);
    hvd_op_options options = named("lonely");
    options.timeout_ns = INT64_C(200000000);
    hvd_handle *handle = NULL;
    int64_t begin = now_ms();
    CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &why));
    CHECK_STATUS(HVD_ERR_TIMEOUT, hvd_wait(handle, -1, &why));
    CHECK(now_ms() - begin >= 190 && now_ms() - begin < 5000);
    CHECK(strstr(why.message, "\"lonely\"") && strstr(why.message, "1"));
    hvd_handle_free(handle);
  }
  gate(context, "after"); /* the set is still usable */
}
static void operation_time_limit(void) { run_world(2, deadline, NULL); }

/* ---- callbacks ---- */

static void callbacks(int32_t rank, int32_t size, hvd_context *context, void *argument) {
  (void)rank, (void)size, (void)argument;
  enum { kCount = 50 };
  seen all[kCount];
  float values[kCount];
  memset(all, 0, sizeof all);
  for (int i = 0; i < kCount; ++i) {
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    values[i] = 1;
    all[i].caller = pthread_self();
    hvd_handle *handle = start(context, name, &values[i]);
    /* has ended before the callback is given */
    if (i % 3 == 0) CHECK_STATUS(HVD_OK, hvd_wait(handle, -1, NULL));
    CHECK_STATUS(HVD_OK, hvd_handle_then(handle, record, &all[i], NULL));
    if (i % 3 == 1)
      CHECK_STATUS(HVD_ERR_INVALID_STATE, hvd_handle_then(handle, record, &all[i], NULL));
    hvd_handle_free(handle); /* the operation goes on, and the callback comes */
  }
  for (int i = 0; i < kCount; ++i) {
    reach(&all[i].calls, 1);
    CHECK_STATUS(HVD_OK, atomic_load(&all[i].status));
    CHECK_INT(0, atomic_load(&all[i].overlaps));
    CHECK_INT(0, atomic_load(&all[i].on_callers_thread));
    CHECK(values[i] == 2.0f);
  }
  gate(context, "callbacks");
  for (int i = 0; i < kCount; ++i) CHECK_INT(1, atomic_load(&all[i].calls));
}
static void callback_once(void) { run_world(2, callbacks, NULL); }

static void slow(void *user_data, hvd_handle *handle, hvd_status status) {
  (void)handle, (void)status;
  seen *s = user_data;
  if (atomic_fetch_add(&inside, 1) != 0) atomic_fetch_add(&s->overlaps, 1);
  usleep(500);
  atomic_fetch_sub(&inside, 1);
  atomic_fetch_add(&s->calls, 1);
}

static void one_callback_at_a_time(void) {
  hvd_context *context = open_alone();
  seen s;
  memset(&s, 0, sizeof s);
  float values[20];
  for (int i = 0; i < 20; ++i) {
    hvd_handle *handle = NULL;
    values[i] = 1;
    const hvd_tensor tensor = vector_of(&values[i], &kOne, HVD_FLOAT32);
    CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, &tensor, NULL, &handle, NULL));
    CHECK_STATUS(HVD_OK, hvd_handle_then(handle, slow, &s, NULL));
    hvd_handle_free(handle);
  }
  reach(&s.calls, 20);
  CHECK_INT(0, atomic_load(&s.overlaps));
  hvd_context_free(context);
}

static void leave(int32_t rank, int32_t size, hvd_context *context, void *argument) {
  (void)size, (void)argument;
  if (rank != 0) return;
  seen s;
  memset(&s, 0, sizeof s);
  float value = 1;
  hvd_handle *handle = start(context, "never", &value);
  CHECK_STATUS(HVD_OK, hvd_handle_then(handle, record, &s, NULL));
  CHECK_STATUS(HVD_OK, hvd_shutdown(context, -1, NULL));
  reach(&s.calls, 1);
  CHECK_STATUS(HVD_ERR_SHUT_DOWN, atomic_load(&s.status));
  hvd_handle_free(handle);
}
static void callback_on_shutdown(void) { run_world(2, leave, NULL); }

/* What blocking calls answer inside a callback. */
typedef struct blocking {
  hvd_context *context;
  hvd_handle *pending;
  hvd_status wait, shutdown, create, submit;
  float value;
  atomic_int done;
} blocking;

static void try_blocking(void *user_data, hvd_handle *handle, hvd_status status) {
  (void)handle, (void)status;
  blocking *b = user_data;
  hvd_process_set *set = NULL;
  const int32_t ranks[1] = {0};
  b->wait = hvd_wait(b->pending, -1, NULL);
  b->shutdown = hvd_shutdown(b->context, -1, NULL);
  b->create = hvd_process_set_create(b->context, ranks, 1, &set, NULL);
  const hvd_tensor tensor = vector_of(&b->value, &kOne, HVD_FLOAT32);
  const hvd_op_options options = named("from a callback");
  hvd_handle *next = NULL;
  b->submit = hvd_allreduce_async(b->context, &tensor, &tensor, &options, &next, NULL);
  hvd_handle_free(next);
  atomic_store(&b->done, 1);
}

static void blocking_calls(int32_t rank, int32_t size, hvd_context *context, void *argument) {
  (void)size, (void)argument;
  float pending = 1, value = 1;
  blocking b;
  memset(&b, 0, sizeof b);
  b.context = context;
  b.value = 1;
  if (rank == 0) b.pending = start(context, "pending", &pending);
  hvd_handle *handle = start(context, "x", &value);
  if (rank == 0) {
    CHECK_STATUS(HVD_OK, hvd_handle_then(handle, try_blocking, &b, NULL));
    reach(&b.done, 1);
    CHECK_STATUS(HVD_ERR_WOULD_DEADLOCK, b.wait);
    CHECK_STATUS(HVD_ERR_WOULD_DEADLOCK, b.shutdown);
    CHECK_STATUS(HVD_ERR_WOULD_DEADLOCK, b.create);
    CHECK_STATUS(HVD_OK, b.submit);
  }
  CHECK_STATUS(HVD_OK, hvd_wait(handle, -1, NULL));
  gate(context, "first");
  if (rank == 1) {
    b.pending = start(context, "pending", &pending);
    hvd_handle *second = start(context, "from a callback", &b.value);
    CHECK_STATUS(HVD_OK, hvd_wait(second, -1, NULL));
    hvd_handle_free(second);
  }
  CHECK_STATUS(HVD_OK, hvd_wait(b.pending, -1, NULL));
  hvd_handle_free(b.pending);
  hvd_handle_free(handle);
  gate(context, "last"); /* the operation of the callback writes to b */
}
static void would_deadlock(void) { run_world(2, blocking_calls, NULL); }

static void free_context(void *user_data, hvd_handle *handle, hvd_status status) {
  (void)handle, (void)status;
  blocking *b = user_data;
  hvd_context_free(b->context);
  atomic_store(&b->done, 1);
}

static void context_freed_by_its_callback(void) {
  blocking b;
  memset(&b, 0, sizeof b);
  b.context = open_alone();
  float value = 1;
  hvd_handle *handle = start(b.context, "x", &value);
  CHECK_STATUS(HVD_OK, hvd_handle_then(handle, free_context, &b, NULL));
  hvd_handle_free(handle);
  reach(&b.done, 1);
}

/* ---- the completion descriptor ---- */

static int readable(int fd, int timeout_ms) {
  struct pollfd item = {fd, POLLIN, 0};
  return poll(&item, 1, timeout_ms) == 1;
}

static void descriptor(int32_t rank, int32_t size, hvd_context *context, void *argument) {
  (void)size, (void)argument;
  int32_t fd = -1, again = -2;
  float early = 1, values[3] = {1, 1, 1};
  hvd_handle *before = start(context, "before", &early);
  CHECK_STATUS(HVD_OK, hvd_wait(before, -1, NULL));
  CHECK_STATUS(HVD_OK, hvd_completions_fd(context, &fd, NULL));
  CHECK_STATUS(HVD_OK, hvd_completions_fd(context, &again, NULL));
  CHECK(fd >= 0 && fd == again);
  /* "before" came before the first call */
  CHECK(!readable(fd, 0) && hvd_completions_pop(context) == NULL);
  hvd_handle_free(before);

  gate(context, "queued too"); /* submitted after the first call: queued like every operation */
  CHECK(readable(fd, 5000));
  hvd_handle_free(hvd_completions_pop(context));
  CHECK(!readable(fd, 0) && hvd_completions_pop(context) == NULL);

  const char *names[3] = {"a", "b", "c"};
  hvd_handle *handles[3];
  for (int i = 0; i < 3; ++i) handles[i] = start(context, names[rank == 0 ? i : 2 - i], &values[i]);
  int found = 0;
  for (int popped = 0; popped < 3 && readable(fd, 5000);) {
    for (hvd_handle *handle; (handle = hvd_completions_pop(context)) != NULL; ++popped) {
      for (int i = 0; i < 3; ++i) found += handles[i] == handle;
      CHECK_STATUS(HVD_OK, hvd_test(handle, NULL));
      hvd_handle_free(handle);
    }
  }
  CHECK_INT(3, found);
  CHECK(!readable(fd, 20));
  for (int i = 0; i < 3; ++i) {
    CHECK(values[i] == 2.0f);
    hvd_handle_free(handles[i]);
  }
}
static void completion_descriptor(void) { run_world(2, descriptor, NULL); }

int main(void) {
  RUN(wait_with_a_limit);
  RUN(operation_time_limit);
  RUN(callback_once);
  RUN(one_callback_at_a_time);
  RUN(callback_on_shutdown);
  RUN(would_deadlock);
  RUN(context_freed_by_its_callback);
  RUN(completion_descriptor);
  return check_result();
}
