// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms.h"

#include <cstddef>

namespace hvd::collectives {

Program start(LaneState& state, const Work& work) {
  static constexpr Program (*kAlgorithms[])(LaneState&, const Work&) = {
#define HVD_KIND(enumerator, name) name,
#include "collectives/kind.def"
  };
  return kAlgorithms[static_cast<size_t>(work.kind)](state, work);
}

}  // namespace hvd::collectives
