/* SPDX-License-Identifier: Apache-2.0 */
/* What the C tests share: checks that count failures instead of ending the process, and ranks as
 * threads. */
#ifndef HVD_TESTS_CAPI_CHECK_H
#define HVD_TESTS_CAPI_CHECK_H

#include <hvd/hvd.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern atomic_int check_failures;

void check_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) check_failed(__FILE__, __LINE__, "%s", #condition); \
  } while (0)

#define CHECK_INT(expected, actual)                                                               \
  do {                                                                                            \
    long long check_e = (long long)(expected), check_a = (long long)(actual);                     \
    if (check_e != check_a)                                                                       \
      check_failed(__FILE__, __LINE__, "%s: expected %lld, got %lld", #actual, check_e, check_a); \
  } while (0)

#define CHECK_STATUS(expected, call)                                                \
  do {                                                                              \
    hvd_status check_s = (call);                                                    \
    if (check_s != (expected))                                                      \
      check_failed(__FILE__, __LINE__, "%s: expected %s, got %s", #call, #expected, \
                   hvd_status_name(check_s));                                       \
  } while (0)

/* Runs one test function and prints its name and result. */
#define RUN(test)                                                                                 \
  do {                                                                                            \
    int check_before = atomic_load(&check_failures);                                              \
    test();                                                                                       \
    printf("%s %s\n", atomic_load(&check_failures) == check_before ? "ok    " : "FAILED", #test); \
    fflush(stdout);                                                                               \
  } while (0)

/* What main returns. */
int check_result(void);

/* A name for mem:// that no other job of this process has. */
const char *job_name(char *buffer, size_t size);

/* hvd_init of one rank of a mem:// job. */
hvd_status open_rank(const char *job, int32_t rank, int32_t size, hvd_context **context,
                     hvd_error *error);

/* A context that is a whole job. Never NULL; ends the process if there is none, because no test can
 * go on. */
hvd_context *open_alone(void);

/* Runs fn on `size` ranks, one thread each, over one new mem:// job. All ranks have returned from
   fn before the first shuts down. */
typedef void (*rank_fn)(int32_t rank, int32_t size, hvd_context *context, void *argument);
void run_world(int32_t size, rank_fn fn, void *argument);

/* A one-dimensional tensor. *length must outlive it. */
hvd_tensor vector_of(void *data, const int64_t *length, hvd_dtype dtype);

hvd_op_options named(const char *name);

/* Milliseconds of a monotonic clock. */
int64_t now_ms(void);

#endif
