/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <jni.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { MOST_LOG_LINES = 1000 };

typedef struct event_queue event_queue;

typedef struct event {
  struct event* next;
  event_queue* queue;
  int32_t kind, number;
  int64_t id;
  int32_t missing;   /* of a completion: the operation's end, and the return of hvd_handle_then */
  event_record* log; /* of a log line */
} event;

struct event_queue {
  pthread_mutex_t mutex;
  pthread_cond_t filled;
  event *first, *last;
  size_t references; /* the owner, and each completion that is still to come */
  int32_t log_lines, lost;
  int closed;
};

static void drop_locked(event_queue* queue) {
  const size_t left = --queue->references;
  pthread_mutex_unlock(&queue->mutex);
  if (left != 0) return;
  for (event* item = queue->first; item != NULL;) {
    event* next = item->next;
    free(item->log);
    free(item);
    item = next;
  }
  pthread_cond_destroy(&queue->filled);
  pthread_mutex_destroy(&queue->mutex);
  free(queue);
}

static void append_locked(event_queue* queue, event* item) {
  item->next = NULL;
  if (queue->last != NULL) {
    queue->last->next = item;
  } else {
    queue->first = item;
  }
  queue->last = item;
  pthread_cond_signal(&queue->filled);
}

/* The event is told when both have come: who hears of it frees the handle, which hvd_handle_then
 * may still be using. */
static void arrived(event* item) {
  event_queue* queue = item->queue;
  pthread_mutex_lock(&queue->mutex);
  if (--item->missing == 0) append_locked(queue, item);
  drop_locked(queue);
}

static void on_completion(void* user_data, hvd_handle* handle, hvd_status status) {
  event* item = user_data;
  (void)handle;
  item->number = status;
  arrived(item);
}

static void copy_text(char* to, size_t size, const char* from) {
  size_t length = strlen(from);
  if (length >= size) {
    length = size - 1;
    /* not inside a UTF-8 sequence */
    while (length > 0 && ((unsigned char)from[length] & 0xc0) == 0x80) --length;
  }
  memcpy(to, from, length);
  to[length] = '\0';
}

static void on_log(void* user_data, hvd_log_level level, int32_t rank, const char* component,
                   const char* message) {
  event_queue* queue = user_data;
  event* item = malloc(sizeof *item);
  event_record* record = malloc(sizeof *record);
  pthread_mutex_lock(&queue->mutex);
  if (item == NULL || record == NULL || queue->closed || queue->log_lines == MOST_LOG_LINES) {
    ++queue->lost;
    free(item);
    free(record);
  } else {
    *item = (event){NULL, queue, EVENT_LOG, level, 0, 0, record};
    record->rank = rank;
    record->lost = queue->lost;
    copy_text(record->component, sizeof record->component, component);
    copy_text(record->message, sizeof record->message, message);
    queue->lost = 0;
    ++queue->log_lines;
    append_locked(queue, item);
  }
  pthread_mutex_unlock(&queue->mutex);
}

/* RawJNI.queueNew: 0 if there is no memory. */
JNIEXPORT jlong JNICALL Java_io_hvd_RawJNI_queueNew(JNIEnv* env, jclass self) {
  event_queue* queue = calloc(1, sizeof *queue);
  (void)env, (void)self;
  if (queue == NULL) return 0;
  pthread_mutex_init(&queue->mutex, NULL);
  pthread_cond_init(&queue->filled, NULL);
  queue->references = 1;
  return (jlong)(intptr_t)queue;
}

/* RawJNI.logFunction: what hvd_init_options.log_fn shall be, with the queue as its user data. */
JNIEXPORT jlong JNICALL Java_io_hvd_RawJNI_logFunction(JNIEnv* env, jclass self) {
  (void)env, (void)self;
  return (jlong)(intptr_t)&on_log;
}

/* RawJNI.then: the handle's end will stand in the queue under this id. */
JNIEXPORT jint JNICALL Java_io_hvd_RawJNI_then(JNIEnv* env, jclass self, jlong handle,
                                               jlong address, jlong id, jlong error) {
  event_queue* queue = (event_queue*)(intptr_t)address;
  event* item = malloc(sizeof *item);
  (void)env, (void)self;
  if (item == NULL) return HVD_ERR_OUT_OF_MEMORY;
  *item = (event){NULL, queue, EVENT_COMPLETION, 0, id, 2, NULL};
  pthread_mutex_lock(&queue->mutex);
  queue->references += 2;
  pthread_mutex_unlock(&queue->mutex);
  const hvd_status status = hvd_handle_then((hvd_handle*)(intptr_t)handle, on_completion, item,
                                            (hvd_error*)(intptr_t)error);
  if (status == HVD_OK) {
    arrived(item);
    return status;
  }
  free(item);
  pthread_mutex_lock(&queue->mutex);
  --queue->references;
  drop_locked(queue);
  return status;
}

/* RawJNI.queueNext: waits for an event and copies it to `record`; EVENT_NONE once the queue is
 * closed and empty. */
JNIEXPORT jint JNICALL Java_io_hvd_RawJNI_queueNext(JNIEnv* env, jclass self, jlong address,
                                                    jlong record) {
  event_queue* queue = (event_queue*)(intptr_t)address;
  event_record* out = (event_record*)(intptr_t)record;
  (void)env, (void)self;
  pthread_mutex_lock(&queue->mutex);
  while (queue->first == NULL && !queue->closed) pthread_cond_wait(&queue->filled, &queue->mutex);
  event* item = queue->first;
  if (item != NULL) {
    queue->first = item->next;
    if (queue->first == NULL) queue->last = NULL;
    if (item->kind == EVENT_LOG) --queue->log_lines;
  }
  pthread_mutex_unlock(&queue->mutex);
  if (item == NULL) return EVENT_NONE;
  const int32_t kind = item->kind;
  if (item->log != NULL) *out = *item->log;
  out->kind = kind;
  out->number = item->number;
  out->id = item->id;
  free(item->log);
  free(item);
  return kind;
}

/* RawJNI.queueClose: queueNext gives out what is there and then ends. */
JNIEXPORT void JNICALL Java_io_hvd_RawJNI_queueClose(JNIEnv* env, jclass self, jlong address) {
  event_queue* queue = (event_queue*)(intptr_t)address;
  (void)env, (void)self;
  pthread_mutex_lock(&queue->mutex);
  queue->closed = 1;
  pthread_cond_broadcast(&queue->filled);
  pthread_mutex_unlock(&queue->mutex);
}

/* RawJNI.queueFree: drops the owner's reference; nobody may be in queueNext, and no context may log
 * to it any more. */
JNIEXPORT void JNICALL Java_io_hvd_RawJNI_queueFree(JNIEnv* env, jclass self, jlong address) {
  event_queue* queue = (event_queue*)(intptr_t)address;
  (void)env, (void)self;
  pthread_mutex_lock(&queue->mutex);
  drop_locked(queue);
}
