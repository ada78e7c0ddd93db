// SPDX-License-Identifier: Apache-2.0
// How the members of a set find out whether NCCL can serve them: each shows its card, and all draw the same conclusion.
#include <algorithm>
#include <cstring>

#include "backend/nccl/nccl_comm.h"

namespace hvd::backend::nccl {

struct NcclFactory::Card {
  uint8_t usable = 0;
  int32_t version = 0;
  device::DeviceUuid device{};  // no two members may share one
  UniqueId id{};                // of member 0, which the others connect to
  char reason[300] = {};        // why it is not usable
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
  if (member != 0) return {};
  const device::Device::Scope scope(device);
  return library_->check(library_->calls().make_id(&card->id), "ncclGetUniqueId");
}

Bytes NcclFactory::card(device::Device& device, int member) {
  static_assert(sizeof(Card) <= kCardBytes && std::is_trivially_copyable_v<Card>);
  Card card;
  const Status filled = fill(device, member, &card);
  card.usable = filled.ok() ? 1 : 0;
  filled.message().copy(card.reason, sizeof card.reason - 1);
  Bytes bytes(kCardBytes);
  std::memcpy(bytes.data(), &card, sizeof card);
  return bytes;
}

Result<std::unique_ptr<DeviceComm>> NcclFactory::open(device::Device& device, std::span<const std::byte> cards, int member,
                                                      const std::function<std::string(int member)>& describe) {
  std::vector<Card> all(cards.size() / kCardBytes);
  for (size_t m = 0; m < all.size(); ++m) std::memcpy(&all[m], cards.data() + m * kCardBytes, sizeof(Card));
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
  }
  return NcclComm::open(library_, device, all[0].id, static_cast<int>(all.size()), member);
}

std::string NcclFactory::name() const { return library_ ? library_->name() + " (" + library_->path() + ")" : "NCCL"; }

}  // namespace hvd::backend::nccl
