/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library tells from threads of its own, queued for a Java thread: ended operations and
 * log lines.
 *
 * No thread of the library ever enters the JVM. So none has to be attached or detached, no Java
 * exception can unwind into C, and the end of the JVM cannot stop the engine in the middle of a
 * callback. The library's own queue (hvd_completions_fd) is not used, because it would take up
 * every operation, also those that a caller already waits for.
 */
#ifndef HVD_JNI_EVENTS_H
#define HVD_JNI_EVENTS_H

#include <stdint.h>

enum { EVENT_NONE = 0, EVENT_COMPLETION = 1, EVENT_LOG = 2 };

/* As Java reads it from its buffer. */
typedef struct event_record {
  int32_t kind;
  int32_t number; /* of a completion its status, of a log line its level */
  int64_t id;     /* completion */
  int32_t rank;   /* log */
  int32_t lost;   /* log lines dropped before this one */
  char component[40];
  char message[1984];
} event_record;

#endif
