// SPDX-License-Identifier: Apache-2.0
// The compiled versions of the kernels, one per instruction set. Only dispatch.cc looks at them:
// naming a version the processor cannot run is the only way to crash here.
#pragma once

#include "kernels/reduce.h"

namespace hvd::kernels {

namespace scalar {
extern const KernelTable kTable;
}
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}

}  // namespace hvd::kernels
