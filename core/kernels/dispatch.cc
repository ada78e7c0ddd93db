// SPDX-License-Identifier: Apache-2.0
// Which version of the kernels this processor gets. The one file here that asks which architecture
// it is compiled for.
#include <cstring>

#include "kernels/isa_tables.h"
#include "kernels/reduce.h"

namespace hvd::kernels {
namespace {

#if defined(__x86_64__)

// The compiler's builtin asks the processor and also whether the operating system saves the wide
// registers.
bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
}

bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const KernelTable* find(Isa isa) noexcept {
  switch (isa) {
    case Isa::kScalar: return &scalar::kTable;
    case Isa::kAvx2: return has_avx2() ? &avx2::kTable : nullptr;
    case Isa::kAvx512: return has_avx512() ? &avx512::kTable : nullptr;
  }
  return nullptr;
}

#else

const KernelTable* find(Isa isa) noexcept {
  return isa == Isa::kScalar ? &scalar::kTable : nullptr;
}

#endif

const KernelTable& best() noexcept {
  static const KernelTable& chosen =
      isa_supported(Isa::kAvx512) ? table(Isa::kAvx512) : table(Isa::kAvx2);
  return chosen;
}

}  // namespace

bool isa_supported(Isa isa) noexcept { return find(isa) != nullptr; }

const KernelTable& table(Isa isa) noexcept {
  const KernelTable* found = find(isa);
  return found != nullptr ? *found : scalar::kTable;
}

const char* isa_name() noexcept { return best().name; }

void reduce(const ReduceArgs& args) noexcept { best().reduce(args); }

void scale(DType dtype, void* dst, const void* src, size_t count, double factor) noexcept {
  best().scale(dtype, dst, src, count, factor);
}

void gram(DType dtype, const void* const* srcs, size_t nsrc, size_t count, double* g) noexcept {
  best().gram(dtype, srcs, nsrc, count, g);
}

void weighted_sum(DType dtype, void* dst, void* dst2, const void* const* srcs,
                  const double* weights, size_t nsrc, size_t count, double postscale) noexcept {
  best().weighted_sum(dtype, dst, dst2, srcs, weights, nsrc, count, postscale);
}

void copy(void* dst, const void* src, size_t bytes) noexcept {
  if (bytes > 0) std::memcpy(dst, src, bytes);
}

void copy_non_temporal(void* dst, const void* src, size_t bytes) noexcept {
  best().copy_non_temporal(dst, src, bytes);
}

}  // namespace hvd::kernels
