/* SPDX-License-Identifier: Apache-2.0 */
/* Memory outside of the Java heap: addresses, blocks, and copies from and to arrays. */
#include <jni.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define AT(type, address) ((type*)(intptr_t)(address))

/* RawJNI.address: where a direct buffer begins, its position not counted; 0 for others. */
JNIEXPORT jlong JNICALL Java_io_hvd_RawJNI_address(JNIEnv* env, jclass self, jobject buffer) {
  (void)self;
  return (jlong)(intptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

/* RawJNI.allocate: a block that begins at a cache line; 0 if there is no memory. */
JNIEXPORT jlong JNICALL Java_io_hvd_RawJNI_allocate(JNIEnv* env, jclass self, jlong size) {
  (void)env, (void)self;
  const size_t rounded = ((size_t)size + 63) / 64 * 64;
  return (jlong)(intptr_t)aligned_alloc(64, rounded != 0 ? rounded : 64);
}

JNIEXPORT void JNICALL Java_io_hvd_RawJNI_release(JNIEnv* env, jclass self, jlong block) {
  (void)env, (void)self;
  free(AT(void, block));
}

JNIEXPORT void JNICALL Java_io_hvd_RawJNI_copy(JNIEnv* env, jclass self, jlong from, jlong to,
                                               jlong size) {
  (void)env, (void)self;
  memmove(AT(void, to), AT(void, from), (size_t)size);
}

/* RawJNI.view: memory as a ByteBuffer, big-endian as all new ones. */
JNIEXPORT jobject JNICALL Java_io_hvd_RawJNI_view(JNIEnv* env, jclass self, jlong address,
                                                  jlong size) {
  (void)self;
  return (*env)->NewDirectByteBuffer(env, AT(void, address), size);
}

/* RawJNI.text: the bytes of a C string without its NUL; null for 0. */
JNIEXPORT jbyteArray JNICALL Java_io_hvd_RawJNI_text(JNIEnv* env, jclass self, jlong address) {
  (void)self;
  if (address == 0) return NULL;
  const jsize size = (jsize)strlen(AT(char, address));
  jbyteArray result = (*env)->NewByteArray(env, size);
  if (result != NULL) (*env)->SetByteArrayRegion(env, result, 0, size, AT(jbyte, address));
  return result;
}

/* RawJNI.arrayToMemory: `type` is the JVM's letter for the array's elements; the caller has checked
 * the range. */
JNIEXPORT void JNICALL Java_io_hvd_RawJNI_arrayToMemory(JNIEnv* env, jclass self, jobject array,
                                                        jchar type, jint first, jint count,
                                                        jlong to) {
  (void)self;
  switch (type) {
    case 'Z': (*env)->GetBooleanArrayRegion(env, array, first, count, AT(jboolean, to)); break;
    case 'B': (*env)->GetByteArrayRegion(env, array, first, count, AT(jbyte, to)); break;
    case 'S': (*env)->GetShortArrayRegion(env, array, first, count, AT(jshort, to)); break;
    case 'I': (*env)->GetIntArrayRegion(env, array, first, count, AT(jint, to)); break;
    case 'J': (*env)->GetLongArrayRegion(env, array, first, count, AT(jlong, to)); break;
    case 'F': (*env)->GetFloatArrayRegion(env, array, first, count, AT(jfloat, to)); break;
    case 'D': (*env)->GetDoubleArrayRegion(env, array, first, count, AT(jdouble, to)); break;
    default: break;
  }
}

/* A Java boolean is 0 or 1 and nothing else; a byte of an HVD_BOOL that a peer sent may be. */
static void set_booleans(JNIEnv* env, jbooleanArray array, jint first, jint count,
                         const jboolean* from) {
  jboolean block[1024];
  for (jint done = 0; done < count;) {
    const jint part = count - done < 1024 ? count - done : 1024;
    for (jint i = 0; i < part; ++i) block[i] = from[done + i] != 0;
    (*env)->SetBooleanArrayRegion(env, array, first + done, part, block);
    done += part;
  }
}

JNIEXPORT void JNICALL Java_io_hvd_RawJNI_memoryToArray(JNIEnv* env, jclass self, jlong from,
                                                        jobject array, jchar type, jint first,
                                                        jint count) {
  (void)self;
  switch (type) {
    case 'Z': set_booleans(env, array, first, count, AT(jboolean, from)); break;
    case 'B': (*env)->SetByteArrayRegion(env, array, first, count, AT(jbyte, from)); break;
    case 'S': (*env)->SetShortArrayRegion(env, array, first, count, AT(jshort, from)); break;
    case 'I': (*env)->SetIntArrayRegion(env, array, first, count, AT(jint, from)); break;
    case 'J': (*env)->SetLongArrayRegion(env, array, first, count, AT(jlong, from)); break;
    case 'F': (*env)->SetFloatArrayRegion(env, array, first, count, AT(jfloat, from)); break;
    case 'D': (*env)->SetDoubleArrayRegion(env, array, first, count, AT(jdouble, from)); break;
    default: break;
  }
}
