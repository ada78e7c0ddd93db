// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda_aware/cuda_aware_factory.h"

#include <cstring>
#include <string>

#include "backend/cuda_aware/cuda_aware_comm.h"
#include "backend/device_moves.h"

namespace hvd::backend::cuda_aware {

// A member's card is why it can not, or empty.
Bytes CudaAwareFactory::card(const Place& place) {
  const Status status = usable(place.host);
  Bytes bytes(kCardBytes);
  status.message().copy(reinterpret_cast<char*>(bytes.data()), kCardBytes - 1);
  return bytes;
}

Status CudaAwareFactory::usable(Comm& host) const {
  HVD_TRY(refused_);
  const DeviceMoves* moves = host.device_moves();
  if (moves == nullptr) return Status(Code::kUnsupported, "MPI does not move the data of this process set");
  return moves->takes_device_memory();
}

Result<std::unique_ptr<DeviceComm>> CudaAwareFactory::open(const Place& place, std::span<const std::byte> cards,
                                                           const Describe& describe) {
  const auto members = static_cast<int>(cards.size() / kCardBytes);
  for (int member = 0; member < members; ++member) {
    const auto* text = reinterpret_cast<const char*>(cards.data()) + static_cast<size_t>(member) * kCardBytes;
    const std::string why(text, ::strnlen(text, kCardBytes));
    if (!why.empty()) return Status(Code::kUnsupported, describe(member) + ": " + why);
  }
  return CudaAwareComm::open(*place.host.device_moves(), place.device, members, place.member);
}

}  // namespace hvd::backend::cuda_aware
