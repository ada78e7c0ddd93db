// SPDX-License-Identifier: Apache-2.0
// The kernels for x86-64 with AVX2 and F16C.
// Nothing inline from the standard library may be called here: the linker could keep this file's
// copy for everybody.
#include <immintrin.h>

#include "kernels/isa_tables.h"

#define HVD_ISA avx2
#define HVD_ISA_VECTOR_BYTES 32

#include "kernels/vector.inc"

namespace hvd::kernels::HVD_ISA {

struct F16 : Half {
  static constexpr bool kInterleaved = false;  // to[0] holds the first half of the elements

  static HVD_INLINE void load(const Byte* from, V* to) noexcept {
    to[0] = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    to[1] = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16)));
  }
  static HVD_INLINE Vec<Byte> pack(const V* from) noexcept {
    constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT;
    return bits_as<Vec<Byte>>(_mm256_set_m128i(_mm256_cvtps_ph(from[1], kNearestEven),
                                               _mm256_cvtps_ph(from[0], kNearestEven)));
  }
};

constexpr bool kHasNonTemporal = true;
HVD_INLINE void store_non_temporal(Byte* to, Vec<Byte> value) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bits_as<__m256i>(value));
}
HVD_INLINE void fence_non_temporal() noexcept { _mm_sfence(); }

}  // namespace hvd::kernels::HVD_ISA

#include "kernels/reduce_impl.inc"
