/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_log_to_fd: how it writes a line, and that a stall is told by it and by nothing else. */
#include "check.h"

#include <poll.h>
#include <unistd.h>

static void *descriptor(int fd) { return (void *)(intptr_t)fd; }

/* What can be read from a pipe within `limit_ms`, until `text` is in it (NULL: all there is now),
 * as a string. */
static void read_until(int fd, const char *text, int limit_ms, char *found, size_t size) {
  const int64_t limit = now_ms() + limit_ms;
  size_t length = 0;
  found[0] = '\0';
  while (length + 1 < size && (text == NULL || !strstr(found, text))) {
    struct pollfd waiting = {fd, POLLIN, 0};
    const int64_t left = text == NULL ? 0 : limit - now_ms();
    if (left < 0 || poll(&waiting, 1, (int)left) != 1) return;
    const ssize_t got = read(fd, found + length, size - 1 - length);
    if (got <= 0) return;
    length += (size_t)got;
    found[length] = '\0';
  }
}

static void lines_as_promised(void) {
  int ends[2];
  char found[8192];
  CHECK_INT(0, pipe(ends));
  hvd_log_to_fd(descriptor(ends[1]), HVD_LOG_WARN, 3, "stall", "words");
  hvd_log_to_fd(descriptor(ends[1]), HVD_LOG_ERROR, -1, "context", "more");
  hvd_log_to_fd(descriptor(ends[1]), 77, 0, "later", "unknown");
  read_until(ends[0], NULL, 0, found, sizeof found);
  char *first = strstr(found, ": W stall] [3]: words\n[");
  CHECK(found[0] == '[' && found[1] == '2' && first != NULL &&
        strstr(first, ": E context] more\n[") != NULL);
  CHECK(strstr(found, ": ? later] [0]: unknown\n") != NULL);

  char *longest = malloc(100001);
  memset(longest, 'x', 100000);
  longest[100000] = '\0';
  hvd_log_to_fd(descriptor(ends[1]), HVD_LOG_WARN, 0, "stall", longest);
  read_until(ends[0], NULL, 0, found, sizeof found);
  CHECK_INT(4096, strlen(found));
  CHECK(found[4094] == 'x' && found[4095] == '\n');
  free(longest);
  close(ends[0]);
  close(ends[1]);
}

static void never_waits(void) {
  int ends[2];
  char found[64];
  CHECK_INT(0, pipe(ends));
  for (int i = 0; i < 100000; ++i)
    hvd_log_to_fd(descriptor(ends[1]), HVD_LOG_WARN, 0, "stall", "nobody reads this");
  read_until(ends[0], NULL, 0, found, sizeof found);
  CHECK(strlen(found) > 0);
  close(ends[0]);
  close(ends[1]);
  hvd_log_to_fd(descriptor(ends[1]), HVD_LOG_WARN, 0, "stall", "there is no such descriptor");
}

/* Of two ranks, rank 1 comes to an operation when it has read of the stall, or when `patience_ms`
 * have gone by. */
typedef struct stalling {
  const char *job;
  hvd_log_fn log;
  void *log_to;
  int read_from;
  int patience_ms;
  char found[8192];
} stalling;

static void stall(int32_t rank, int32_t size, hvd_context *of_the_test, void *argument) {
  stalling *s = argument;
  const hvd_option options[] = {{"stall_check_time_seconds", "1"}, {"op_timeout", "60"}};
  hvd_init_options how = HVD_INIT_OPTIONS_INIT;
  how.rank = rank;
  how.size = size;
  how.rendezvous = s->job;
  how.options = options;
  how.option_count = 2;
  how.log_fn = s->log;
  how.log_user_data = s->log_to;
  hvd_context *context = NULL;
  hvd_handle *handle = NULL;
  float value = 1.0F;
  const int64_t one = 1;
  const hvd_tensor tensor = vector_of(&value, &one, HVD_FLOAT32);
  const hvd_op_options late = named("late");
  (void)of_the_test;
  CHECK_STATUS(HVD_OK, hvd_init(&how, &context, NULL));
  if (rank == 1) read_until(s->read_from, "late", s->patience_ms, s->found, sizeof s->found);
  CHECK_STATUS(HVD_OK, hvd_allreduce_async(context, &tensor, &tensor, &late, &handle, NULL));
  CHECK_STATUS(HVD_OK, hvd_wait(handle, -1, NULL));
  hvd_handle_free(handle);
  hvd_context_free(context);
}

/* What comes out of standard error meanwhile. */
static void stall_on_stderr(hvd_log_fn log, int patience_ms, char *found, size_t size) {
  char job[64];
  int ends[2];
  const int before = dup(STDERR_FILENO);
  CHECK_INT(0, pipe(ends));
  CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
  stalling s = {job_name(job, sizeof job), log, NULL, ends[0], patience_ms, ""};
  run_world(2, stall, &s);
  dup2(before, STDERR_FILENO);
  close(before);
  close(ends[0]);
  close(ends[1]);
  snprintf(found, size, "%s", s.found);
}

static void a_stall_is_told(void) {
  char found[8192];
  stall_on_stderr(hvd_log_to_fd, 30000, found, sizeof found);
  CHECK(strstr(found, ": W stall] [0]: ") != NULL && strstr(found, "late") != NULL);
  if (!strstr(found, "late")) printf("read: %s\n", found);
}

static void without_a_log_function_it_is_silent(void) {
  char found[8192];
  stall_on_stderr(NULL, 2500, found, sizeof found);
  CHECK(found[0] == '\0');
}

int main(void) {
  RUN(lines_as_promised);
  RUN(never_waits);
  RUN(a_stall_is_told);
  RUN(without_a_log_function_it_is_silent);
  return check_result();
}
