// SPDX-License-Identifier: Apache-2.0
// Whether this build is instrumented, for tests that must then do less.
#pragma once

namespace hvd::test {

#if defined(__SANITIZE_THREAD__)
#define HVD_TEST_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define HVD_TEST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HVD_TEST_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define HVD_TEST_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(HVD_TEST_THREAD_SANITIZER)
inline constexpr bool kSanitized = true;
inline constexpr int kSlowness = 10;  // about how much longer everything takes
#elif defined(HVD_TEST_ADDRESS_SANITIZER)
inline constexpr bool kSanitized = true;
inline constexpr int kSlowness = 3;
#else
inline constexpr bool kSanitized = false;
inline constexpr int kSlowness = 1;
#endif

}  // namespace hvd::test
