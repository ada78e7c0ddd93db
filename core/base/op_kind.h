// SPDX-License-Identifier: Apache-2.0
// The kinds of operations that ranks agree on and run together.
#pragma once

#include <cstdint>

namespace hvd {

enum class OpKind : uint8_t {
  kAllreduce,
  kAllgather,
  kBroadcast,
  kAlltoall,
  kReducescatter,
  kBarrier,
  kJoin,
  kCreateSet,   // agreement on the ranks of a new process set
  kConfirmSet,  // agreement that every rank could open it
  kDestroySet,
};
inline constexpr uint8_t kOpKinds = 10;

const char* op_kind_name(OpKind kind);

// Dimension 0 may differ between ranks for these; it travels beside the signature.
inline bool first_dimension_free(OpKind kind) { return kind == OpKind::kAllgather || kind == OpKind::kAlltoall; }

}  // namespace hvd
