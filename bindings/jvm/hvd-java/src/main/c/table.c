/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <dlfcn.h>
#include <jni.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct hvd_table hvd_table;

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static int opened;

/* Empty in `fault`, or why the library at `path` cannot serve. */
static void open_library(const char* path, char* fault, size_t size) {
  struct hvd_table found;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char* why = dlerror();
    snprintf(fault, size, "%s", why != NULL ? why : "dlopen gave no reason");
    return;
  }
#define HVD_FIND(function)                                                    \
  {                                                                           \
    void* address = dlsym(library, "hvd_" #function);                         \
    if (address == NULL) {                                                    \
      snprintf(fault, size, "%s: no function hvd_%s in it", path, #function); \
      dlclose(library);                                                       \
      return;                                                                 \
    }                                                                         \
    memcpy(&found.function, &address, sizeof address);                        \
  }
  HVD_FUNCTIONS(HVD_FIND)
#undef HVD_FIND
  hvd_table = found;
  opened = 1;
}

/* RawJNI.open: null, or what is wrong with the library, as UTF-8. */
JNIEXPORT jbyteArray JNICALL Java_io_hvd_RawJNI_open(JNIEnv* env, jclass self, jbyteArray path) {
  char name[4096], fault[8192] = "";
  (void)self;
  const jsize length = (*env)->GetArrayLength(env, path);
  if (length >= (jsize)sizeof name) {
    snprintf(fault, sizeof fault, "a path of %d bytes is too long", (int)length);
  } else {
    (*env)->GetByteArrayRegion(env, path, 0, length, (jbyte*)name);
    name[length] = '\0';
    pthread_mutex_lock(&opening);
    if (!opened) open_library(name, fault, sizeof fault);
    pthread_mutex_unlock(&opening);
  }
  if (fault[0] == '\0') return NULL;
  const jsize size = (jsize)strlen(fault);
  jbyteArray result = (*env)->NewByteArray(env, size);
  if (result != NULL) (*env)->SetByteArrayRegion(env, result, 0, size, (const jbyte*)fault);
  return result;
}
