// SPDX-License-Identifier: Apache-2.0
// How a lane's shared memory is divided, and the two counters per member that order every access to
// it.
//
// Each member on the host owns one region, written by it alone:
//
//   control line, marks | half 0: send buffer, result | half 1: send buffer, result
//
// All collectives proceed in rounds, numbered alike on every member from the opening of the lane
// on, across operations. Round r uses half r % 2. The send buffer holds one chunk for every other
// member of the host, back to back, and may also be used as one area that all of them read; the
// result holds what this member reduced. `note` are a few bytes beside the counters, one per half,
// which obey the rules of the send buffer. Marks are for cache_topology.h: nobody minds when they
// are written.
//
// A member finishes every operation with filled == published == the number of the next round,
// whatever the operation was: the rules below therefore hold from one operation to the next without
// a barrier.
//
//   filled == r + 1     the owner's send buffer of round r is complete, and the owner has finished
//                       all its reading of rounds up to r - 2 (send buffers and results).
//   published == r + 1  the owner has read every send buffer of round r that it will read, and its
//                       result of round r, if the operation has results, is complete.
//
//   Send buffer: a member writes its send buffer of round r only when everyone has published round
//           r - 2, the last user of that half; from then on nobody reads the old contents. Everyone
//           has to have done so, even for a chunk that only one member will read, because the round
//           before in that half may have been read as a whole.
//   Result: a member writes its result of round r only when everyone has filled round r: then all
//           have finished reading rounds up to r - 2, so nobody reads the old result.
//
// A program may put round r + 1 into its send buffer before it has finished round r, never more. A
// member that reads nothing of a round (or nobody reads of it) still counts it. The counters wrap
// around; they are compared by their difference.
//
// published may be stored late: begin() stores it for everything before. Small operations use that,
// because filled and published share a cache line and one transfer of it is most of their cost.
// Storing late delays nobody who is not already waiting for this member's next operation: round r +
// 1 needs published == r only, which is stored before filled == r + 1.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/program.h"
#include "transport/lane.h"

namespace hvd::collectives {

inline constexpr size_t kControlBytes = 4096;
inline constexpr size_t kNoteBytes = 24;
inline constexpr size_t kLargestChunk = size_t{128} << 10;
// The slots of a pair still fit into a usual second-level cache, and each of the two waits for the
// other half as often.
inline constexpr size_t kChunkOfPair = size_t{256} << 10;
inline constexpr size_t kSmallestChunk = size_t{4} << 10;
// Both limits are kept to while chunks are larger than the smallest. Memory for all members of a
// host has to be taken before the first operation, and more than fits into a cache speeds up none.
inline constexpr size_t kHalfBytes = size_t{1} << 20;
// for all members on a host, if hosts have equally many
inline constexpr size_t kHalvesOfHost = size_t{16} << 20;

// Shared memory a lane of a set with members on so many hosts needs per member on a host, for
// open_lane().
size_t bytes_per_member(int set_size, int hosts);

// Bytes one member hands to one other member in one round.
inline size_t chunk_bytes(int set_size, int hosts) {
  const auto members = static_cast<size_t>(std::max(set_size, 1));
  const size_t half = std::min(kHalfBytes, kHalvesOfHost * static_cast<size_t>(hosts) / members);
  const size_t largest = members == 2 && hosts == 1 ? kChunkOfPair : kLargestChunk;
  return std::clamp(half / members / 4096 * 4096, kSmallestChunk, largest);
}

struct alignas(128) ControlLine {
  std::atomic<uint32_t> filled;
  std::atomic<uint32_t> published;
  std::byte note[2][kNoteBytes];
};
static_assert(sizeof(ControlLine) <= kControlBytes);
static_assert(std::atomic<uint32_t>::is_always_lock_free,
              "the counters are shared between processes");

// A member's view of the regions of all members on its host. Members are numbered as in Lane::local
// here.
class Slots {
 public:
  explicit Slots(const transport::Lane& lane);

  int count() const { return count_; }
  int me() const { return me_; }
  int member(int local) const { return lane_->local[static_cast<size_t>(local)]; }
  size_t chunk() const { return chunk_; }
  static constexpr size_t kMarks = 8;
  // Cache lines that are no neighbours, so that reading one brings no other along.
  std::atomic<uint32_t>& mark(int local, size_t i) const {
    constexpr std::array<size_t, kMarks> kAt = {1024, 3584, 2048, 3072, 1536, 2560, 768, 3328};
    return *reinterpret_cast<std::atomic<uint32_t>*>(region(local) + kAt[i % kMarks]);
  }
  size_t send_buffer_bytes() const { return chunk_ * static_cast<size_t>(std::max(count_ - 1, 1)); }

  // Starts an operation of `rounds` rounds; returns the number of the first.
  uint32_t begin(uint32_t rounds) {
    line(me_).published.store(next_, std::memory_order_release);
    const uint32_t first = next_;
    next_ += rounds;
    return first;
  }
  // For operations that learn their number of rounds on the way.
  void more(uint32_t rounds) { next_ += rounds; }

  std::byte* send_buffer(uint32_t round) const { return half(me_, round); }
  std::byte* send_buffer(uint32_t round, int to) const {
    return half(me_, round) + place(me_, to) * chunk_;
  }
  std::byte* result(uint32_t round) const { return half(me_, round) + send_buffer_bytes(); }
  std::byte* note(uint32_t round) const { return line(me_).note[round % 2]; }

  const std::byte* send_buffer_of(uint32_t round, int from) const { return half(from, round); }
  const std::byte* receive_chunk(uint32_t round, int from) const {
    return half(from, round) + place(from, me_) * chunk_;
  }
  const std::byte* result_of(uint32_t round, int from) const {
    return half(from, round) + send_buffer_bytes();
  }
  const std::byte* note_of(uint32_t round, int from) const { return line(from).note[round % 2]; }

  void fill(uint32_t round) const {
    line(me_).filled.store(round + 1, std::memory_order_release);
    bell_->ring_sleepers();
  }
  void publish(uint32_t round) const {
    line(me_).published.store(round + 1, std::memory_order_release);
    bell_->ring_sleepers();
  }
  // Several rounds at once, for a member that only reads.
  void fill_and_publish(uint32_t round) const {
    line(me_).filled.store(round + 1, std::memory_order_release);
    publish(round);
  }

  // Member `local` does not read my send buffer of round `round` - 2 any more.
  Condition writable(int local, uint32_t round) const {
    return at_least(line(local).published, round - 1, local);
  }
  Condition filled(int local, uint32_t round) const {
    return at_least(line(local).filled, round + 1, local);
  }
  Condition published(int local, uint32_t round) const {
    return at_least(line(local).published, round + 1, local);
  }

 private:
  static size_t place(int owner, int to) { return static_cast<size_t>(to < owner ? to : to - 1); }
  std::byte* region(int local) const {
    return memory_ + static_cast<size_t>(local) * region_bytes_;
  }
  std::byte* half(int local, uint32_t round) const {
    return region(local) + kControlBytes + (round % 2) * half_bytes_;
  }
  ControlLine& line(int local) const { return *reinterpret_cast<ControlLine*>(region(local)); }
  Condition at_least(const std::atomic<uint32_t>& counter, uint32_t value, int local) const {
    return {.counter = &counter,
            .at_least = value,
            .ready = nullptr,
            .self = nullptr,
            .member = member(local)};
  }

  const transport::Lane* lane_;
  transport::Doorbell* bell_;
  std::byte* memory_;
  int count_;
  int me_;
  size_t chunk_;
  size_t half_bytes_;
  size_t region_bytes_;
  uint32_t next_;
};

}  // namespace hvd::collectives
