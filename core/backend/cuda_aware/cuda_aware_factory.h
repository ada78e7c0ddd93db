// SPDX-License-Identifier: Apache-2.0
// How the members of a set find out whether all of their MPIs can be given memory of devices.
#pragma once

#include <memory>

#include "backend/device_comm.h"

namespace hvd::backend::cuda_aware {

class CudaAwareFactory final : public DeviceCommFactory {
 public:
  // `refused`: ok, or why no tensor of this rank is to go that way.
  explicit CudaAwareFactory(Status refused) : refused_(std::move(refused)) {}
  Bytes capabilities(const Place& place) override;
  Result<std::unique_ptr<DeviceComm>> open(const Place& place,
                                           std::span<const std::byte> capabilities,
                                           const Describe& describe) override;

 private:
  Status usable(const Place& place) const;

  const Status refused_;
};

}  // namespace hvd::backend::cuda_aware
