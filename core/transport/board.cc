// SPDX-License-Identifier: Apache-2.0
#include "transport/board.h"

#include <hvd/version.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace hvd::transport {
namespace {

constexpr uint64_t kMagic = 0x6876642d626f6172;

struct alignas(kLine) Header {
  uint64_t magic;
  uint32_t protocol;
  uint32_t members;
  char library[32];
};

size_t pair_count(int members) {
  return static_cast<size_t>(members) * static_cast<size_t>(members);
}

// 64 KiB for each pair up to 8 ranks, then less: the first rank takes the memory for all pairs
// while the others wait.
size_t ring_bytes(int members) {
  const size_t share = (size_t{8} << 20) / pair_count(members);
  return std::bit_floor(std::clamp(share, size_t{4} << 10, size_t{64} << 10));
}

}  // namespace

size_t Board::bytes_for(int members) {
  const size_t bytes = sizeof(Header) + static_cast<size_t>(members) * sizeof(MemberLine) +
                       pair_count(members) * (sizeof(RingIndices) + ring_bytes(members));
  return (bytes + 4095) & ~size_t{4095};
}

Board::Board(std::span<std::byte> memory, int members)
    : members_(members),
      ring_bytes_(ring_bytes(members)),
      lines_(reinterpret_cast<MemberLine*>(memory.data() + sizeof(Header))),
      rings_(memory.data() + sizeof(Header) + static_cast<size_t>(members) * sizeof(MemberLine)) {}

Board Board::create(std::span<std::byte> memory, int members) {
  auto* header = new (memory.data()) Header{};
  header->protocol = kProtocolVersion;
  header->members = static_cast<uint32_t>(members);
  std::strncpy(header->library, HVD_VERSION_STRING, sizeof header->library - 1);
  header->magic = kMagic;
  return Board(memory, members);
}

Result<Board> Board::attach(std::span<std::byte> memory, int members) {
  Header header;
  if (memory.size() < sizeof header)
    return Status(Code::kInternal, "shared board: no room for its header");
  std::memcpy(&header, memory.data(), sizeof header);
  header.library[sizeof header.library - 1] = '\0';
  if (header.magic != kMagic || header.protocol != kProtocolVersion) {
    return Status(Code::kVersion, std::string("shared board: made by library ") + header.library +
                                      " with protocol " + std::to_string(header.protocol) +
                                      ", this is " HVD_VERSION_STRING " with protocol " +
                                      std::to_string(kProtocolVersion));
  }
  if (header.members != static_cast<uint32_t>(members) || memory.size() < bytes_for(members)) {
    return Status(Code::kInternal, "shared board: made for " + std::to_string(header.members) +
                                       " ranks, here are " + std::to_string(members));
  }
  return Board(memory, members);
}

RingIndices* Board::indices(int from, int to) const {
  const size_t pair =
      static_cast<size_t>(to) * static_cast<size_t>(members_) + static_cast<size_t>(from);
  return reinterpret_cast<RingIndices*>(rings_ + pair * sizeof(RingIndices));
}

std::byte* Board::bytes(int from, int to) const {
  const size_t pair =
      static_cast<size_t>(to) * static_cast<size_t>(members_) + static_cast<size_t>(from);
  return rings_ + pair_count(members_) * sizeof(RingIndices) + pair * ring_bytes_;
}

RingWriter Board::writer(int from, int to) const {
  return {indices(from, to), bytes(from, to), ring_bytes_};
}
RingReader Board::reader(int from, int to) const {
  return {indices(from, to), bytes(from, to), ring_bytes_};
}

}  // namespace hvd::transport
