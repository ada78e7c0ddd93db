// SPDX-License-Identifier: Apache-2.0
// The kernels with nothing but what every processor of the target architecture has: the reference
// for the other instruction sets.
#include "kernels/isa_tables.h"

#define HVD_ISA scalar
// a register of baseline x86-64 and AArch64; elsewhere lowered to scalars
#define HVD_ISA_VECTOR_BYTES 16

#include "kernels/vector.inc"

namespace hvd::kernels::HVD_ISA {

using F16 = SoftF16;

constexpr bool kHasNonTemporal = false;
[[maybe_unused]] HVD_INLINE void store_non_temporal(Byte* to, Vec<Byte> value) noexcept {
  store(to, value);
}
[[maybe_unused]] HVD_INLINE void fence_non_temporal() noexcept {}

}  // namespace hvd::kernels::HVD_ISA

#include "kernels/reduce_impl.inc"
