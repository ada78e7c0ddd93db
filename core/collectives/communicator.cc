// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator.h"

#include "collectives/lane_communicator.h"

namespace hvd::collectives {

LaneCommunicator::LaneCommunicator(transport::Lane& lane, const Settings& settings)
    : lane_(lane),
      settings_(settings),
      slots_(lane),
      cache_topology_(slots_, settings.non_temporal_stores),
      map_(lane.host_of, lane.hosts),
      chunks_(static_cast<size_t>(lane.size())),
      sources_(static_cast<size_t>(lane.size())) {}

std::unique_ptr<Communicator> make_communicator(transport::Lane& lane, const Settings& settings) {
  return std::make_unique<LaneCommunicator>(lane, settings);
}

}  // namespace hvd::collectives
