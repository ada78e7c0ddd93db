// SPDX-License-Identifier: Apache-2.0
// How the members of a set find out whether NCCL can serve them: each shows its card, and all draw the same conclusion.
#include <algorithm>
#include <cstring>

#include "backend/nccl/nccl_comm.h"

namespace hvd::backend::nccl {

struct NcclFactory::Card {
  uint8_t usable = 0;
  uint8_t tools = 0;
  int32_t version = 0;
  device::DeviceUuid device{};  // no two members may share one
  UniqueId id{};                // of member 0, which the others connect to
  char reason[300] = {};        // why it is not usable, or has no kernels
};

Status NcclFactory::fill(device::Device& device, int member, Card* card) {
  HVD_TRY(refused_);
  if (!library_) {
    Result<std::shared_ptr<const Library>> library = Library::open(path_);
    if (!library.ok()) return library.status();
    library_ = std::move(library).value();
  }
  card->version = library_->version();
  const Result<device::DeviceUuid> uuid = device.uuid();
  if (!uuid.ok()) return uuid.status();
  card->device = uuid.value();
  const Status tools = prepare_tools(device);
  card->tools = tools.ok() ? 1 : 0;
  tools.message().copy(card->reason, sizeof card->reason - 1);
  if (member != 0) return {};
  const device::Device::Scope scope(device);
  return library_->check(library_->calls().make_id(&card->id), "ncclGetUniqueId");
}

// Before the members meet, so that all know who has none.
Status NcclFactory::prepare_tools(device::Device& device) {
  DeviceTools& tools = tools_[&device];
  if (!tools.kernels) {
    Result<std::unique_ptr<device::Kernels>> kernels = device::Kernels::load(device, kernels_from_);
    if (!kernels.ok()) return kernels.status();
    tools.kernels = std::move(kernels).value();
  }
  Result<std::unique_ptr<FusionBuffer>> buffer = FusionBuffer::allocate(device);
  if (buffer.ok()) tools.buffers.push_back(std::move(buffer).value());
  return buffer.status();
}

NcclComm::Tools NcclFactory::take_tools(device::Device& device) {
  DeviceTools& tools = tools_[&device];
  NcclComm::Tools taken{tools.kernels, std::move(tools.buffers.back()), ""};
  tools.buffers.pop_back();
  return taken;
}

Bytes NcclFactory::card(device::Device& device, int member) {
  static_assert(sizeof(Card) <= kCardBytes && std::is_trivially_copyable_v<Card>);
  Card card;
  const Status filled = fill(device, member, &card);
  card.usable = filled.ok() ? 1 : 0;
  if (!filled.ok()) {
    std::memset(card.reason, 0, sizeof card.reason);
    filled.message().copy(card.reason, sizeof card.reason - 1);
  }
  Bytes bytes(kCardBytes);
  std::memcpy(bytes.data(), &card, sizeof card);
  return bytes;
}

Result<std::unique_ptr<DeviceComm>> NcclFactory::open(device::Device& device, std::span<const std::byte> cards, int member,
                                                      const std::function<std::string(int member)>& describe) {
  std::vector<Card> all(cards.size() / kCardBytes);
  for (size_t m = 0; m < all.size(); ++m) std::memcpy(&all[m], cards.data() + m * kCardBytes, sizeof(Card));
  NcclComm::Tools tools = all[static_cast<size_t>(member)].tools != 0 ? take_tools(device) : NcclComm::Tools{};
  std::string why_none;
  const auto unsupported = [](const std::string& why) { return Status(Code::kUnsupported, why); };
  for (size_t m = 0; m < all.size(); ++m) {
    all[m].reason[sizeof all[m].reason - 1] = '\0';
    const auto who = [&](size_t index) { return describe(static_cast<int>(index)); };
    if (all[m].usable == 0) return unsupported(who(m) + ": " + all[m].reason);
    if (all[m].version != all[0].version) {
      return unsupported("NCCL's version differs: " + std::to_string(all[0].version) + " on " + who(0) + ", " +
                         std::to_string(all[m].version) + " on " + who(m));
    }
    const auto twin = std::find_if(all.begin(), all.begin() + static_cast<ptrdiff_t>(m),
                                   [&](const Card& card) { return card.device == all[m].device; });
    if (twin != all.begin() + static_cast<ptrdiff_t>(m)) {
      return unsupported(who(static_cast<size_t>(twin - all.begin())) + " and " + who(m) + " share a GPU");
    }
    if (all[m].tools == 0 && why_none.empty()) why_none = who(m) + ": " + all[m].reason;
  }
  if (!why_none.empty()) tools = {nullptr, nullptr, why_none};
  return NcclComm::open(library_, device, std::move(tools), all[0].id, static_cast<int>(all.size()), member);
}

}  // namespace hvd::backend::nccl
