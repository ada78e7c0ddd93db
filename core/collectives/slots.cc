// SPDX-License-Identifier: Apache-2.0
#include "collectives/slots.h"

namespace hvd::collectives {

namespace {

size_t half_bytes(size_t members, size_t chunk) { return std::max<size_t>(members, 2) * chunk; }

}  // namespace

size_t bytes_per_member(int set_size, int hosts) {
  return kControlBytes +
         2 * half_bytes(static_cast<size_t>(std::max(set_size, 1)), chunk_bytes(set_size, hosts));
}

Slots::Slots(const transport::Lane& lane)
    : lane_(&lane),
      bell_(lane.bell),
      memory_(lane.memory.data()),
      count_(static_cast<int>(lane.local.size())),
      me_(lane.me_local),
      chunk_(chunk_bytes(lane.size(), lane.hosts)),
      half_bytes_(half_bytes(lane.local.size(), chunk_)),
      region_bytes_(bytes_per_member(lane.size(), lane.hosts)),
      next_(line(me_).filled.load(std::memory_order_acquire)) {}

}  // namespace hvd::collectives
