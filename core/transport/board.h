// SPDX-License-Identifier: Apache-2.0
// The control part of what the ranks of one host share: a line per rank and a message ring for each
// ordered pair.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "transport/ring.h"

namespace hvd::transport {

inline constexpr uint32_t kProtocolVersion = 6;

// attention: says who must be woken and when. Set by the owner; a ringer takes kParked away, so
// each park is rung once.
inline constexpr uint32_t kParked = 1;
inline constexpr uint32_t kInterested = 2;

// presence
inline constexpr uint32_t kHere = 0;
inline constexpr uint32_t kLeft = 1;    // said goodbye
inline constexpr uint32_t kClosed = 2;  // destroyed without goodbye

struct MemberLine {
  alignas(kLine) std::atomic<uint32_t> attention;
  alignas(kLine) std::atomic<uint32_t> presence;
  std::atomic<uint32_t> news;  // counts changes of the presence of any other member
};

// A view; the memory belongs to the HostSharedMemory.
class Board {
 public:
  Board() = default;
  static size_t bytes_for(int members);
  // For the member that made the memory, which is all zero.
  static Board create(std::span<std::byte> memory, int members);
  static Result<Board> attach(std::span<std::byte> memory, int members);

  int members() const { return members_; }
  MemberLine& line(int member) const { return lines_[member]; }
  RingWriter writer(int from, int to) const;
  RingReader reader(int from, int to) const;

 private:
  Board(std::span<std::byte> memory, int members);
  RingIndices* indices(int from, int to) const;
  std::byte* bytes(int from, int to) const;

  int members_ = 0;
  size_t ring_bytes_ = 0;
  MemberLine* lines_ = nullptr;
  std::byte* rings_ = nullptr;
};

}  // namespace hvd::transport
