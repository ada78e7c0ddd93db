/* SPDX-License-Identifier: Apache-2.0
   PMIx whose first answers to PMIx_Get_nb are that nothing is found, as a server's may be while the
   other rank joins it. Everything else is the real library's. Loaded before the program
   (LD_PRELOAD), because that moment comes in a few of a hundred starts.

   LATE_PMIX_REAL: the real library. LATE_PMIX_ANSWERS: how many such answers. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kNotFound = -46 };

static void* real(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen(getenv("LATE_PMIX_REAL"), RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    fprintf(stderr, "late_pmix: %s\n", dlerror());
    exit(1);
  }
  return dlsym(library, name);
}

int PMIx_Init(void* self, void* info, size_t count) {
  return ((int (*)(void*, void*, size_t))real("PMIx_Init"))(self, info, count);
}
int PMIx_Finalize(const void* info, size_t count) {
  return ((int (*)(const void*, size_t))real("PMIx_Finalize"))(info, count);
}
int PMIx_Put(uint8_t scope, const char* key, void* value) {
  return ((int (*)(uint8_t, const char*, void*))real("PMIx_Put"))(scope, key, value);
}
int PMIx_Commit(void) { return ((int (*)(void))real("PMIx_Commit"))(); }
const char* PMIx_Error_string(int status) {
  return ((const char* (*)(int))real("PMIx_Error_string"))(status);
}

int PMIx_Get_nb(const void* process, const char* key, const void* info, size_t count,
                void (*callback)(int, void*, void*), void* data) {
  static int answers;
  /* The library's own questions come this way too. */
  if (key != NULL && strncmp(key, "hvd.", 4) == 0 && answers < atoi(getenv("LATE_PMIX_ANSWERS"))) {
    if (answers++ == 0) fprintf(stderr, "late_pmix: nothing found yet\n");
    callback(kNotFound, NULL, data);
    return 0;
  }
  return ((int (*)(const void*, const char*, const void*, size_t, void (*)(int, void*, void*),
                   void*))real("PMIx_Get_nb"))(process, key, info, count, callback, data);
}
