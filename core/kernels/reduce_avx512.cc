// SPDX-License-Identifier: Apache-2.0
// The kernels for x86-64 with AVX-512 F, BW, VL and DQ.
// Nothing inline from the standard library may be called here: the linker could keep this file's
// copy for everybody.
#include <immintrin.h>

#include "kernels/isa_tables.h"

#define HVD_ISA avx512
#define HVD_ISA_VECTOR_BYTES 64

#include "kernels/vector.inc"

namespace hvd::kernels::HVD_ISA {

struct F16 : Half {
  static constexpr bool kInterleaved = false;  // to[0] holds the first half of the elements

  static HVD_INLINE void load(const Byte* from, V* to) noexcept {
    to[0] = _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    to[1] = _mm512_maskz_cvtph_ps(kAll,
                                  _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32)));
  }
  static HVD_INLINE Vec<Byte> pack(const V* from) noexcept {
    constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT;
    struct {
      __m256i low, high;
    } const halves = {_mm512_maskz_cvtps_ph(kAll, from[0], kNearestEven),
                      _mm512_maskz_cvtps_ph(kAll, from[1], kNearestEven)};
    return bits_as<Vec<Byte>>(halves);
  }

 private:
  // The forms with a mask, because g++ 12 takes the undefined operand inside the others for a
  // mistake of ours.
  static constexpr __mmask16 kAll = 0xffff;
};

constexpr bool kHasNonTemporal = true;
HVD_INLINE void store_non_temporal(Byte* to, Vec<Byte> value) noexcept {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bits_as<__m512i>(value));
}
HVD_INLINE void fence_non_temporal() noexcept { _mm_sfence(); }

}  // namespace hvd::kernels::HVD_ISA

#include "kernels/reduce_impl.inc"
