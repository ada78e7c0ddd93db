// SPDX-License-Identifier: Apache-2.0
// The kinds of operations that ranks agree on and run together. The table of those that callers
// start is collective.def.
#pragma once

#include <cstdint>

namespace hvd {

enum class OpKind : uint8_t {
#define HVD_COLLECTIVE(enumerator, ...) enumerator,
#include "base/collective.def"
  kCreateSet,   // agreement on the ranks of a new process set
  kConfirmSet,  // agreement that every rank could open it
  kDestroySet,
};
inline constexpr uint8_t kOpKinds = static_cast<uint8_t>(OpKind::kDestroySet) + 1;

// A row of collective.def; all false for the kinds that callers do not start.
struct OpTraits {
  const char* name;
  bool moves_data = false;
  bool reduces = false;
  bool takes_root = false;
  bool keeps_shape = false;  // each result has the shape of its input
  // dimension 0 may differ between ranks; it travels beside the signature
  bool ragged = false;
  bool takes_splits = false;
  bool takes_scalars = false;
  bool fusible = false;  // if all its tensors have one dtype
};
inline constexpr OpTraits kOpTraits[] = {
#define HVD_COLLECTIVE(enumerator, NAME, name, function, moves, reduces, root, same, ragged, \
                       splits, grouped, scalar, fusible)                                     \
  {#name,       moves == 1,  reduces == 1, root == 1,   same == 1,                           \
   ragged == 1, splits == 1, scalar == 1,  fusible == 1},
#include "base/collective.def"
    {"process set create"},
    {"process set confirm"},
    {"process set destroy"},
};
static_assert(sizeof kOpTraits / sizeof kOpTraits[0] == kOpKinds);

// Inline: every submission asks.
inline const OpTraits& traits_of(OpKind kind) { return kOpTraits[static_cast<uint8_t>(kind)]; }
inline const char* op_kind_name(OpKind kind) { return traits_of(kind).name; }
inline bool reduces(OpKind kind) { return traits_of(kind).reduces; }

}  // namespace hvd
