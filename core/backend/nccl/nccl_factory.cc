// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/nccl_factory.h"

#include <algorithm>
#include <cstring>

namespace hvd::backend::nccl {

struct NcclFactory::Capabilities {
  uint8_t library = kNcclCapabilities;
  uint8_t usable = 0;
  uint8_t tools = 0;
  uint8_t splits = 0;     // whether the library does
  uint8_t connected = 0;  // whether this member has what was split off for the members
  uint8_t by_hosts = 0;   // whether that is wanted
  uint8_t packs = 0;      // as well
  uint8_t streams = 1;
  int32_t host = 0;
  int32_t version = 0;
  device::DeviceUuid device{};  // no two members may share one
  UniqueId id{};                // member 0's, to which the others connect
  char reason[300] = {};        // the reason why NCCL is not usable, or has no kernels
};

Status NcclFactory::fill(const Place& place, Capabilities* mine) {
  device::Device& device = place.device;
  HVD_TRY(settings_.refused);
  if (!library_) {
    Result<std::shared_ptr<const Library>> library = Library::open(settings_.path);
    if (!library.ok()) return library.status();
    library_ = std::move(library).value();
  }
  mine->version = library_->version();
  mine->splits = library_->calls().split != nullptr ? 1 : 0;
  mine->connected = place.split != nullptr && &place.split->device() == &device ? 1 : 0;
  mine->by_hosts = settings_.by_hosts ? 1 : 0;
  mine->packs = settings_.packs ? 1 : 0;
  mine->streams = static_cast<uint8_t>(settings_.streams);
  mine->host = settings_.host;
  const Result<device::DeviceUuid> uuid = device.uuid();
  if (!uuid.ok()) return uuid.status();
  mine->device = uuid.value();
  const Status tools = prepare_tools(device);
  mine->tools = tools.ok() ? 1 : 0;
  tools.message().copy(mine->reason, sizeof mine->reason - 1);
  if (place.member != 0) return {};
  const device::Device::Scope scope(device);
  return library_->check(library_->calls().make_id(&mine->id), "ncclGetUniqueId");
}

// Before the members meet, so that all know who has none.
Status NcclFactory::prepare_tools(device::Device& device) {
  DeviceTools& tools = tools_[&device];
  if (!tools.kernels) {
    Result<std::unique_ptr<device::Kernels>> kernels =
        device::Kernels::load(device, settings_.kernels);
    if (!kernels.ok()) return kernels.status();
    tools.kernels = std::move(kernels).value();
  }
  std::vector<std::unique_ptr<FusionBuffer>> buffers;
  for (int s = 0; s < settings_.streams; ++s) {
    Result<std::unique_ptr<FusionBuffer>> buffer = FusionBuffer::allocate(device);
    if (!buffer.ok()) return buffer.status();
    buffers.push_back(std::move(buffer).value());
  }
  tools.buffers.push_back(std::move(buffers));
  return {};
}

NcclComm::Tools NcclFactory::take_tools(device::Device& device) {
  DeviceTools& tools = tools_[&device];
  NcclComm::Tools taken{tools.kernels, std::move(tools.buffers.back()), true, ""};
  tools.buffers.pop_back();
  return taken;
}

Bytes NcclFactory::capabilities(const Place& place) {
  static_assert(sizeof(Capabilities) <= kCapabilityBytes &&
                std::is_trivially_copyable_v<Capabilities>);
  Capabilities mine;
  const Status filled = fill(place, &mine);
  mine.usable = filled.ok() ? 1 : 0;
  if (!filled.ok()) {
    std::memset(mine.reason, 0, sizeof mine.reason);
    filled.message().copy(mine.reason, sizeof mine.reason - 1);
  }
  Bytes bytes(kCapabilityBytes);
  std::memcpy(bytes.data(), &mine, sizeof mine);
  return bytes;
}

// Whether the library can connect them.
Status NcclFactory::compare(const std::vector<Capabilities>& all, const Describe& describe) {
  const auto unsupported = [](const std::string& why) { return Status(Code::kUnsupported, why); };
  const auto who = [&](size_t index) { return describe(static_cast<int>(index)); };
  for (size_t m = 0; m < all.size(); ++m) {
    if (all[m].usable == 0) return unsupported(who(m) + ": " + all[m].reason);
    if (all[m].version != all[0].version) {
      return unsupported("NCCL's version differs: " + std::to_string(all[0].version) + " on " +
                         who(0) + ", " + std::to_string(all[m].version) + " on " + who(m));
    }
    const auto twin =
        std::find_if(all.begin(), all.begin() + static_cast<ptrdiff_t>(m),
                     [&](const Capabilities& one) { return one.device == all[m].device; });
    if (twin != all.begin() + static_cast<ptrdiff_t>(m)) {
      return unsupported(who(static_cast<size_t>(twin - all.begin())) + " and " + who(m) +
                         " share a GPU");
    }
  }
  return {};
}

// A feature that some member does not have, or does not want, is used by no member.
Shape NcclFactory::shape_of(const std::vector<Capabilities>& all, int member) {
  Shape shape;
  shape.splits =
      std::all_of(all.begin(), all.end(), [](const Capabilities& one) { return one.splits != 0; });
  if (!shape.splits) return shape;
  shape.streams =
      std::min_element(all.begin(), all.end(), [](const Capabilities& a, const Capabilities& b) {
        return a.streams < b.streams;
      })->streams;
  std::map<int, std::vector<int>> hosts;
  for (size_t m = 0; m < all.size(); ++m) hosts[all[m].host].push_back(static_cast<int>(m));
  const std::vector<int>& mine = hosts[all[static_cast<size_t>(member)].host];
  const bool even = std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) {
    return host.second.size() == mine.size();
  });
  const bool wanted = std::all_of(all.begin(), all.end(),
                                  [](const Capabilities& one) { return one.by_hosts != 0; });
  if (!wanted || !even || hosts.size() == 1 || mine.size() == 1) return shape;
  shape.local = mine;
  shape.place = static_cast<int>(std::find(mine.begin(), mine.end(), member) - mine.begin());
  shape.host = all[static_cast<size_t>(member)].host;
  return shape;
}

Result<std::unique_ptr<DeviceComm>> NcclFactory::open(const Place& place,
                                                      std::span<const std::byte> capabilities,
                                                      const Describe& describe) {
  std::vector<Capabilities> all(capabilities.size() / kCapabilityBytes);
  for (size_t m = 0; m < all.size(); ++m) {
    std::memcpy(&all[m], capabilities.data() + m * kCapabilityBytes, sizeof(Capabilities));
    all[m].reason[sizeof all[m].reason - 1] = '\0';
  }
  NcclComm::Tools tools = all[static_cast<size_t>(place.member)].tools != 0
                              ? take_tools(place.device)
                              : NcclComm::Tools{};
  HVD_TRY(same_library(capabilities, describe));
  HVD_TRY(compare(all, describe));
  const auto lacks =
      std::find_if(all.begin(), all.end(), [](const Capabilities& one) { return one.tools == 0; });
  if (lacks != all.end()) {
    tools = {};
    tools.why_none = describe(static_cast<int>(lacks - all.begin())) + ": " + lacks->reason;
  }
  tools.packs =
      std::all_of(all.begin(), all.end(), [](const Capabilities& one) { return one.packs != 0; });
  Shape shape = shape_of(all, place.member);
  if (tools.kernels) tools.buffers.resize(shape.streams);
  const bool connected = std::all_of(all.begin(), all.end(),
                                     [](const Capabilities& one) { return one.connected != 0; });
  return NcclComm::open(library_, place.device, std::move(tools), std::move(shape), all[0].id,
                        connected ? place.split : nullptr, static_cast<int>(all.size()),
                        place.member);
}

}  // namespace hvd::backend::nccl
