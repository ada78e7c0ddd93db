// SPDX-License-Identifier: Apache-2.0
// The collectives over a lane, each in a file of its own. A lane runs a single program at a time:
// the engine starts the next only when the last is done, in the same order on every member.
#pragma once

#include "collectives/lane_state.h"
#include "collectives/program.h"
#include "collectives/work.h"

namespace hvd::collectives {

// The program for a work, by its kind. The state, the work and all that `work` points to outlive
// the program. Making a program moves nothing yet; the first step() begins.
Program start(LaneState& state, const Work& work);

#define HVD_KIND(enumerator, name) Program name(LaneState& state, const Work& work);
#include "collectives/kind.def"

}  // namespace hvd::collectives
