// SPDX-License-Identifier: Apache-2.0
// The operations as TensorFlow names them.
#ifndef HVD_PYTHON_TENSORFLOW_KINDS_H
#define HVD_PYTHON_TENSORFLOW_KINDS_H

#include <array>

namespace hvd::tensorflow {

enum class Kind { kAllreduce, kAllgather, kBroadcast, kAlltoall, kReducescatter, kJoin, kBarrier };

// What the engine's name of an operation starts with, so that different kinds never clash; see horovod/_submit.py.
inline constexpr std::array kKindNames = {"allreduce",     "allgather", "broadcast", "alltoall",
                                          "reducescatter", "join",      "barrier"};

// What rank operations tell.
enum class Fact { kSize, kLocalSize, kRank, kLocalRank, kIncluded };

}  // namespace hvd::tensorflow

#endif  // HVD_PYTHON_TENSORFLOW_KINDS_H
