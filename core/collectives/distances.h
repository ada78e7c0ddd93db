// SPDX-License-Identifier: Apache-2.0
// Which members on this host are far: on cores that have no cache in common with this member's.
//
// What one core has just written, another one reads from the cache that both have. A core elsewhere (another socket, another
// chip of the same socket) has to ask the writer's cache for every line, and the writer asks back before it writes there
// again; together that takes longer than the way through memory. So what far members are to read is written around the caches.
// An allreduce of 19 MB on two cores of an EPYC 7003: 5.8 ms through the caches and 3.2 ms around them if they are far, 3.2
// and 4.7 ms if they are near.
//
// Far is what takes long to read: every few rounds members write a few lines, their marks, and one other reads them by the
// clock. It is done again and again, because operating systems and hypervisors move ranks to other cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/slots.h"
#include "kernels/reduce.h"

namespace hvd::collectives {

// Of reading a member's marks, in nanoseconds. For each of four lines 10 to 40 were measured on a chip with a cache for a few
// cores and 100 to 130 between two such, always; 50 to 75, at times more than 120, within one whose cores share one large cache.
inline constexpr int64_t kFarNs = 360;

// So many looks in succession that take longer make a member far; one that does not, near.
inline constexpr int kLooksForFar = 3;

// Every so many rounds there is a look, which takes half a microsecond if the member is near and one if it is far.
inline constexpr int kRoundsToLook = 4;

// With less, waiting until what went around the caches has arrived takes longer than what it saves.
inline constexpr size_t kLeastAround = 4096;

inline bool goes_around(bool far, size_t bytes) { return far && bytes >= kLeastAround; }

inline void copy_for(bool far, std::byte* to, const std::byte* from, size_t bytes) {
  if (goes_around(far, bytes)) {
    kernels::copy_stream(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

class Distances {
 public:
  // Nanoseconds it takes to read a member's marks, less what reading them takes anyway.
  using Measure = int64_t (*)(const Slots& slots, int local);
  static int64_t time_to_read(const Slots& slots, int local);

  Distances(const Slots& slots, AroundCaches around, Measure measure = time_to_read);

  bool far(int local) const { return long_[static_cast<size_t>(local)] == kLooksForFar; }
  // Of those who read what is for all.
  bool far_from_most() const { return 2 * far_count_ > slots_.count() - 1; }

  // Before a round of much data is filled, the same on all members: writes the marks if it is time for that.
  void show(uint32_t round);
  // After everyone has filled that round: looks at the marks of one of them.
  void look(uint32_t round);

 private:
  const Slots& slots_;
  Measure measure_;        // null: what is far is given
  std::vector<int> long_;  // per member of this host: the latest looks that took long, of which kLooksForFar are enough
  int far_count_ = 0;
  int rounds_ = 0;            // since the marks were written
  bool shown_ = false;        // and not yet looked at
  uint32_t shown_round_ = 0;  // when they were
  int next_;                  // who was looked at last
};

}  // namespace hvd::collectives
