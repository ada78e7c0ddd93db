// SPDX-License-Identifier: Apache-2.0
// How the collectives of a lane run; the same on all members.
#pragma once

namespace hvd::collectives {

// Whether what other members of a host are to read is written with non-temporal stores.
enum class NonTemporalStores { kMeasured, kNever, kAlways };

struct Settings {
  // Settings that matter with several hosts only. False: every member exchanges with every other,
  // whatever its host.
  bool hierarchical_allreduce = true;  // and reducescatter
  bool hierarchical_allgather = true;
  NonTemporalStores non_temporal_stores = NonTemporalStores::kMeasured;
};

}  // namespace hvd::collectives
