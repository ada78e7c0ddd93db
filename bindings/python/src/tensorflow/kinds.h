// SPDX-License-Identifier: Apache-2.0
// The operations as TensorFlow names them.
#ifndef HVD_PYTHON_TENSORFLOW_KINDS_H
#define HVD_PYTHON_TENSORFLOW_KINDS_H

namespace hvd::tensorflow {

enum class Kind { kAllreduce, kAllgather, kBroadcast, kAlltoall, kReducescatter, kJoin, kBarrier };

// What rank operations tell.
enum class Fact { kSize, kLocalSize, kRank, kLocalRank, kIncluded };

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_KINDS_H
