// SPDX-License-Identifier: Apache-2.0
// What the operations of TensorFlow are.
#ifndef HVD_PYTHON_TENSORFLOW_KINDS_H
#define HVD_PYTHON_TENSORFLOW_KINDS_H

#include "../kinds.h"

namespace hvd::tensorflow {

// What rank operations tell.
enum class Fact { kSize, kLocalSize, kRank, kLocalRank, kIncluded };

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_KINDS_H
