/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts from birth to death: several at once, a thousand after another, shutdown at a bad time,
 * any order of freeing, fork. */
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static hvd_error error;

typedef struct resources {
  int fds, threads;
  long rss_kib;
} resources;

static resources measure_once(void) {
  resources now = {0, 0, 0};
  DIR *folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) ++now.fds;
  if (folder) closedir(folder);
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  while (status && fgets(line, sizeof line, status)) {
    sscanf(line, "Threads: %d", &now.threads);
    sscanf(line, "VmRSS: %ld", &now.rss_kib);
  }
  if (status) fclose(status);
  return now;
}

/* The fewest threads in 50 ms: the kernel still counts a joined thread for a moment. */
static resources measure(void) {
  resources least = measure_once();
  for (int i = 0; i < 50; ++i) {
    usleep(1000);
    resources now = measure_once();
    if (now.threads < least.threads) least.threads = now.threads;
  }
  return least;
}

static hvd_status sum_of(hvd_context *context, const char *name, float *value) {
  const int64_t length = 1;
  const hvd_tensor tensor = vector_of(value, &length, HVD_FLOAT32);
  const hvd_op_options options = named(name);
  hvd_handle *handle = NULL;
  hvd_status status = hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, NULL);
  if (status == HVD_OK) status = hvd_wait(handle, -1, NULL);
  hvd_handle_free(status == HVD_OK ? handle : NULL);
  return status;
}

static void two_contexts_at_once(void) {
  hvd_context *one = open_alone(), *two = open_alone();
  float a = 1, b = 2;
  CHECK_STATUS(HVD_OK, sum_of(one, "x", &a));
  CHECK_STATUS(HVD_OK, sum_of(two, "x", &b));
  CHECK_STATUS(HVD_OK, hvd_shutdown(one, -1, &error));
  CHECK_STATUS(HVD_OK, sum_of(two, "x", &b));
  hvd_context_free(one);
  CHECK_STATUS(HVD_OK, sum_of(two, "y", &b));
  hvd_context_free(two);
}

static void init_alone_of_two(void) {
  /* A job of two whose rank 1 never comes: the error names it. */
  char job[64];
  job_name(job, sizeof job);
  hvd_init_options options = HVD_INIT_OPTIONS_INIT;
  options.rank = 0;
  options.size = 2;
  options.rendezvous = job;
  options.timeout_ns = INT64_C(200000000);
  hvd_context *out = NULL;
  int64_t start = now_ms();
  hvd_status status = hvd_init(&options, &out, &error);
  CHECK_STATUS(HVD_ERR_TIMEOUT, status);
  CHECK(out == NULL && strstr(error.message, "1"));
  CHECK(now_ms() - start >= 150 && now_ms() - start < 5000);
}

static void one_after_another(void) {
  resources before = {0, 0, 0};
  for (int i = 0; i < 1000; ++i) {
    hvd_context *context = open_alone();
    float value = 1;
    CHECK_STATUS(HVD_OK, sum_of(context, "x", &value));
    CHECK_STATUS(HVD_OK, hvd_shutdown(context, -1, &error));
    hvd_context_free(context);
    if (i == 100) before = measure();
  }
  resources after = measure();
  printf("       after 100 and after 1000: fds %d %d, threads %d %d, rss %ld %ld KiB\n", before.fds,
         after.fds, before.threads, after.threads, before.rss_kib, after.rss_kib);
  CHECK_INT(before.fds, after.fds);
  CHECK_INT(before.threads, after.threads);
  /* 900 contexts: growth of 4 KiB for each would be 3,600 KiB. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define UNDER_A_SANITIZER 1
#endif
#endif
#if !defined(UNDER_A_SANITIZER) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* their allocators keep freed memory on purpose */
  CHECK(after.rss_kib - before.rss_kib < 1024);
#endif
}

static void pair_body(int32_t rank, int32_t size, hvd_context *context, void *argument) {
  (void)rank, (void)argument;
  float value = 1;
  CHECK_STATUS(HVD_OK, sum_of(context, "x", &value));
  CHECK(value == (float)size);
}

static void pairs_after_another(void) {
  resources before = {0, 0, 0};
  for (int i = 0; i < 100; ++i) {
    run_world(2, pair_body, NULL);
    if (i == 20) before = measure();
  }
  resources after = measure();
  CHECK_INT(before.fds, after.fds);
  CHECK_INT(before.threads, after.threads);
}

/* Rank 0 leaves while its operation waits for rank 1; rank 1 comes afterwards. */
static pthread_barrier_t left;

static void leave_early(int32_t rank, int32_t size, hvd_context *context, void *argument) {
  (void)size, (void)argument;
  hvd_error why = HVD_ERROR_INIT;
  float value = 1;
  const int64_t length = 1;
  const hvd_tensor tensor = vector_of(&value, &length, HVD_FLOAT32);
  const hvd_op_options options = named("orphan");
  hvd_handle *handle = NULL;
  if (rank == 0) {
    CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &why));
    CHECK_STATUS(HVD_PENDING, hvd_test(handle, &why));
    CHECK_STATUS(HVD_OK, hvd_shutdown(context, INT64_C(5000000000), &why));
    CHECK_STATUS(HVD_ERR_SHUT_DOWN, hvd_wait(handle, -1, &why));
    CHECK(strstr(why.message, "orphan") != NULL);
    CHECK_STATUS(HVD_ERR_SHUT_DOWN, hvd_test(handle, &why)); /* the same answer every time */
    pthread_barrier_wait(&left);
  } else {
    pthread_barrier_wait(&left);
    hvd_status status = hvd_allreduce_async(context, &tensor, &tensor, &options, &handle, &why);
    if (status == HVD_OK) status = hvd_wait(handle, -1, &why);
    CHECK_STATUS(HVD_ERR_SHUT_DOWN, status);
    CHECK(strstr(why.message, "rank 0") != NULL);
    CHECK_INT(0, why.rank);
    CHECK_STATUS(HVD_ERR_SHUT_DOWN, hvd_context_status(context, &why));
  }
  hvd_handle_free(handle);
}

static void shutdown_with_operations_in_flight(void) {
  pthread_barrier_init(&left, NULL, 2);
  run_world(2, leave_early, NULL);
  pthread_barrier_destroy(&left);
}

static void after_shutdown(void) {
  hvd_context *context = open_alone();
  CHECK_STATUS(HVD_OK, hvd_context_status(context, &error));
  CHECK_STATUS(HVD_OK, hvd_shutdown(context, 0, &error));
  CHECK_STATUS(HVD_OK, hvd_shutdown(context, -1, &error));
  CHECK_STATUS(HVD_ERR_SHUT_DOWN, hvd_context_status(context, &error));
  /* Queries go on working. */
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  CHECK_STATUS(HVD_OK, hvd_topology_get(context, &topology, &error));
  CHECK_INT(1, topology.size);
  size_t count = 0;
  CHECK_STATUS(HVD_OK, hvd_metrics_snapshot(context, NULL, &count, &error));
  CHECK_INT(0, hvd_process_set_id(hvd_process_set_world(context)));
  /* Operations do not, and give the reason that everybody else gets. */
  float value = 1;
  const int64_t length = 1;
  const int32_t ranks[1] = {0};
  const hvd_tensor tensor = vector_of(&value, &length, HVD_FLOAT32);
  hvd_handle *handle = NULL;
  hvd_process_set *set = NULL;
  CHECK_STATUS(HVD_ERR_SHUT_DOWN,
               hvd_allreduce_async(context, &tensor, NULL, NULL, &handle, &error));
  CHECK(strlen(error.message) > 0);
  CHECK_STATUS(HVD_ERR_SHUT_DOWN, hvd_barrier_async(context, NULL, &handle, &error));
  CHECK(hvd_process_set_create(context, ranks, 1, &set, &error) < 0);
  CHECK(handle == NULL && set == NULL);
  hvd_context_free(context);
}

static void any_order_of_freeing(void) {
  hvd_context *context = open_alone();
  float value[2] = {1, 2};
  const int64_t length = 2;
  const hvd_tensor tensor = vector_of(value, &length, HVD_FLOAT32);
  hvd_handle *kept = NULL, *dropped = NULL;
  hvd_process_set *set = NULL;
  CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, NULL, NULL, &kept, &error));
  CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, NULL, NULL, &dropped, &error));
  hvd_handle_free(dropped);
  CHECK_STATUS(HVD_OK, hvd_wait(kept, -1, &error));
  CHECK_STATUS(HVD_OK, hvd_process_set_find(context, 0, &set, &error));
  hvd_context_free(context); /* shuts down by itself */
  hvd_tensor out;
  CHECK_STATUS(HVD_OK, hvd_wait(kept, 0, &error));
  CHECK_STATUS(HVD_OK, hvd_handle_output(kept, 0, &out, &error));
  CHECK(memcmp(out.data, value, sizeof value) == 0);
  hvd_process_set_free(set);
  hvd_handle_free(kept);
}

/* In a child made by fork every call is refused, freeing does not hang, and the parent is not
 * disturbed. */
static int child(hvd_context *context, hvd_handle *handle) {
  hvd_error why = HVD_ERROR_INIT;
  float value = 1;
  const int64_t length = 1;
  const hvd_tensor tensor = vector_of(&value, &length, HVD_FLOAT32);
  hvd_topology topology = HVD_TOPOLOGY_INIT;
  hvd_handle *mine = NULL;
  if (hvd_allreduce_async(context, &tensor, NULL, NULL, &mine, &why) != HVD_ERR_INVALID_STATE)
    return 2;
  if (!strstr(why.message, "fork")) return 3;
  if (hvd_context_status(context, &why) != HVD_ERR_INVALID_STATE) return 4;
  if (hvd_topology_get(context, &topology, &why) != HVD_ERR_INVALID_STATE) return 5;
  if (hvd_wait(handle, -1, &why) != HVD_ERR_INVALID_STATE) return 6;
  if (hvd_shutdown(context, -1, &why) != HVD_ERR_INVALID_STATE) return 7;
  hvd_handle_free(handle);
  hvd_context_free(context);
  return 0;
}

static void forked_child(void) {
  hvd_context *context = open_alone();
  float value = 1;
  const int64_t length = 1;
  const hvd_tensor tensor = vector_of(&value, &length, HVD_FLOAT32);
  hvd_handle *handle = NULL;
  CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, NULL, NULL, &handle, &error));
  CHECK_STATUS(HVD_OK, hvd_wait(handle, -1, &error));
  pid_t pid = fork();
  if (pid == 0) {
    alarm(10);
    _exit(child(context, handle));
  }
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    check_failed(__FILE__, __LINE__, "child: exit %d, signal %d",
                 WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  CHECK_STATUS(HVD_OK, sum_of(context, "after the fork", &value));
  hvd_handle_free(handle);
  hvd_context_free(context);
}

int main(void) {
  error = (hvd_error)HVD_ERROR_INIT;
  RUN(two_contexts_at_once);
  RUN(init_alone_of_two);
  RUN(one_after_another);
  RUN(pairs_after_another);
  RUN(shutdown_with_operations_in_flight);
  RUN(after_shutdown);
  RUN(any_order_of_freeing);
  RUN(forked_child);
  return check_result();
}
