// SPDX-License-Identifier: Apache-2.0
// The native backend: collectives of this project over shared memory and streams.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "collectives/settings.h"
#include "transport/fabric.h"

namespace hvd::backend::host {

// The fabric outlives the factory and the comms.
class HostCommFactory final : public CommFactory {
 public:
  HostCommFactory(transport::Fabric& fabric, collectives::Settings settings)
      : fabric_(fabric), settings_(settings) {}
  Result<std::unique_ptr<Comm>> open(int lane_id, const std::vector<int>& ranks,
                                     Time deadline) override;

 private:
  transport::Fabric& fabric_;
  collectives::Settings settings_;
};

}  // namespace hvd::backend::host
