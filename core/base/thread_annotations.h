// SPDX-License-Identifier: Apache-2.0
// Says to clang which mutex guards what. With -Wthread-safety clang refuses code that uses a member
// without its mutex, or that calls a function without the mutex that the function requires. Other
// compilers see nothing of this.
#pragma once

#if defined(__clang__)
#define HVD_THREAD_ANNOTATION(attribute) __attribute__((attribute))
#else
#define HVD_THREAD_ANNOTATION(attribute)
#endif

// Types that can be held, and types whose objects hold something until their end.
#define HVD_CAPABILITY(name) HVD_THREAD_ANNOTATION(capability(name))
#define HVD_SCOPED_CAPABILITY HVD_THREAD_ANNOTATION(scoped_lockable)
// Members.
#define HVD_GUARDED_BY(mutex) HVD_THREAD_ANNOTATION(guarded_by(mutex))
// Functions: what their callers hold before and after the call.
#define HVD_REQUIRES(...) HVD_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define HVD_EXCLUDES(...) HVD_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define HVD_ACQUIRE(...) HVD_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define HVD_TRY_ACQUIRE(...) HVD_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define HVD_RELEASE(...) HVD_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// A function that returns the mutex.
#define HVD_RETURN_CAPABILITY(mutex) HVD_THREAD_ANNOTATION(lock_returned(mutex))
// Functions that clang cannot follow; a comment there says why.
#define HVD_NO_THREAD_SAFETY_ANALYSIS HVD_THREAD_ANNOTATION(no_thread_safety_analysis)
