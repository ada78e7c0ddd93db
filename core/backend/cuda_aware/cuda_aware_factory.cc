// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda_aware/cuda_aware_factory.h"

#include <cstring>
#include <string>

#include "backend/cuda_aware/cuda_aware_comm.h"
#include "backend/device_moves.h"

namespace hvd::backend::cuda_aware {

// A member's capabilities are why it can not, or empty.
Bytes CudaAwareFactory::capabilities(const Place& place) {
  const Status status = usable(place);
  Bytes bytes(kCapabilityBytes);
  bytes[0] = std::byte{kMpiCapabilities};
  status.message().copy(reinterpret_cast<char*>(bytes.data()) + 1, kCapabilityBytes - 2);
  return bytes;
}

Status CudaAwareFactory::usable(const Place& place) const {
  HVD_TRY(refused_);
  DeviceMoves* moves = place.host.device_moves();
  if (moves == nullptr)
    return Status(Code::kUnsupported, "MPI does not move the data of this process set");
  return moves->take_memory_of(place.device);
}

Result<std::unique_ptr<DeviceComm>> CudaAwareFactory::open(const Place& place,
                                                           std::span<const std::byte> capabilities,
                                                           const Describe& describe) {
  HVD_TRY(same_library(capabilities, describe));
  const auto members = static_cast<int>(capabilities.size() / kCapabilityBytes);
  for (int member = 0; member < members; ++member) {
    const auto* text = reinterpret_cast<const char*>(capabilities.data()) +
                       static_cast<size_t>(member) * kCapabilityBytes + 1;
    const std::string why(text, ::strnlen(text, kCapabilityBytes - 1));
    if (!why.empty()) return Status(Code::kUnsupported, describe(member) + ": " + why);
  }
  return CudaAwareComm::open(*place.host.device_moves(), place.device, members, place.member);
}

}  // namespace hvd::backend::cuda_aware
