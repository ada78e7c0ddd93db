// SPDX-License-Identifier: Apache-2.0
#include "faults/fault.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

// glibc's own, under names that this program does not replace.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

// Every one of these calls.
#define CALL(result, name, failed, parameters, arguments, ...) \
  CALL_IF(result, name, failed, parameters, arguments, true, __VA_ARGS__)

namespace hvd::testing {
namespace {

enum Number : int {
  kNumber_memory = kAllocation,
#define CALL_IF(result, name, failed, parameters, arguments, when, ...) kNumber_##name,
#include "faults/calls.def"
#undef CALL_IF
  kNumbers,
};

constexpr int kNoMemory[] = {ENOMEM, 0};
#define CALL_IF(result, name, failed, parameters, arguments, when, ...) \
  constexpr int kErrors_##name[] = {__VA_ARGS__, 0};
#include "faults/calls.def"
#undef CALL_IF

constexpr FaultyCall kCalls[] = {
    {"memory", kNoMemory},
#define CALL_IF(result, name, failed, parameters, arguments, when, ...) {#name, kErrors_##name},
#include "faults/calls.def"
#undef CALL_IF
};

std::atomic<bool> armed{false};
Fault fault;
std::atomic<long> seen[kNumbers];
std::atomic<long> pieces{0};

// The error of this call, or 0.
int strike(int number) {
  if (!armed.load(std::memory_order_acquire)) return 0;
  const long count = seen[number].fetch_add(1) + 1;
  if (number != fault.call || fault.at == 0) return 0;
  return count == fault.at || (fault.lasting && count > fault.at) ? fault.error : 0;
}

bool no_memory() {
  if (strike(kAllocation) == 0) return false;
  errno = ENOMEM;
  return true;
}

void* counted(void* piece) {
  if (piece != nullptr) pieces.fetch_add(1, std::memory_order_relaxed);
  return piece;
}

template <class Function>
Function real(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  Function function = nullptr;
  std::memcpy(&function, &found, sizeof function);
  return function;
}

}  // namespace

int call_count() { return kNumbers; }
const FaultyCall& call(int number) { return kCalls[number]; }

void arm(const Fault& wanted) {
  fault = wanted;
  for (std::atomic<long>& each : seen) each.store(0);
  armed.store(true, std::memory_order_release);
}

void disarm() { armed.store(false, std::memory_order_release); }
long calls_seen(int number) { return seen[number].load(); }

long memory_pieces() { return pieces.load(); }

}  // namespace hvd::testing

// The library's calls come here.
using hvd::testing::counted;
using hvd::testing::no_memory;
using hvd::testing::pieces;

extern "C" {

void* malloc(size_t bytes) noexcept {
  return no_memory() ? nullptr : counted(__libc_malloc(bytes));
}
void* calloc(size_t count, size_t bytes) noexcept {
  return no_memory() ? nullptr : counted(__libc_calloc(count, bytes));
}
void* memalign(size_t line, size_t bytes) noexcept {
  return no_memory() ? nullptr : counted(__libc_memalign(line, bytes));
}
void* aligned_alloc(size_t line, size_t bytes) noexcept { return memalign(line, bytes); }
int posix_memalign(void** out, size_t line, size_t bytes) noexcept {
  void* const piece = memalign(line, bytes);
  if (piece == nullptr) return ENOMEM;
  *out = piece;
  return 0;
}
void* realloc(void* before, size_t bytes) noexcept {
  if (no_memory()) return nullptr;
  void* const piece = __libc_realloc(before, bytes);
  if (before == nullptr && piece != nullptr) pieces.fetch_add(1, std::memory_order_relaxed);
  if (before != nullptr && bytes == 0) pieces.fetch_sub(1, std::memory_order_relaxed);
  return piece;
}
void free(void* piece) noexcept {
  if (piece != nullptr) pieces.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(piece);
}

// The real function is looked for without a lock: the guard of a static local with an initializer
// makes other threads wait by `syscall`, which is one of these calls, and they would call
// themselves until their stack ends.
#define CALL_IF(result, name, failed, parameters, arguments, when, ...)                      \
  __attribute__((visibility("default"))) result hvd_faulty_##name parameters __asm__(#name); \
  result hvd_faulty_##name parameters {                                                      \
    using Function = result(*) parameters;                                                   \
    static std::atomic<Function> known{nullptr};                                             \
    Function real = known.load(std::memory_order_relaxed);                                   \
    if (real == nullptr) known.store(real = hvd::testing::real<Function>(#name));            \
    if (const int error = (when) ? hvd::testing::strike(hvd::testing::kNumber_##name) : 0) { \
      errno = error;                                                                         \
      return failed;                                                                         \
    }                                                                                        \
    return real arguments;                                                                   \
  }
#include "faults/calls.def"
#undef CALL_IF

}  // extern "C"
