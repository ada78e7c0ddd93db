// SPDX-License-Identifier: Apache-2.0
#include "base/op_kind.h"

namespace hvd {
namespace {

constexpr OpTraits kTraits[] = {
#define HVD_COLLECTIVE(enumerator, NAME, name, moves, reduces, root, ragged, scalar) \
  {#name, moves == 1, reduces == 1, root == 1, ragged == 1, scalar == 1},
#include "base/collective.def"
    {"process set create", false, false, false, false, false},
    {"process set confirm", false, false, false, false, false},
    {"process set destroy", false, false, false, false, false},
};
static_assert(sizeof kTraits / sizeof kTraits[0] == kOpKinds);

}  // namespace

const OpTraits& traits_of(OpKind kind) { return kTraits[static_cast<uint8_t>(kind)]; }

}  // namespace hvd
