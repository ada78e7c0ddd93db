// SPDX-License-Identifier: Apache-2.0
// The far members of this host: those on cores that have no cache in common with this member's
// core.
//
// Data that one core has just written, another core reads from the cache that both have. A core
// elsewhere (another socket, another chip of the same socket) has to ask the writer's cache for
// every line, and the writer asks back before it writes there again; together that takes longer
// than the way through memory. So data that far members are to read is written with non-temporal
// stores. An allreduce of 19 MB on two cores of an EPYC 7003: 5.8 ms with usual stores and 3.2 ms
// with non-temporal ones if the cores are far, 3.2 and 4.7 ms if they are near.
//
// A member is far if reading its lines takes long. Every few rounds each member writes a few lines,
// its marks, and another member reads them by the clock. The measurement is repeated for ever,
// because operating systems and hypervisors move ranks to other cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/settings.h"
#include "collectives/slots.h"
#include "kernels/reduce.h"

namespace hvd::collectives {

// The time to read a member's four marks from which on the member is far, in nanoseconds. Measured
// for each line: 10 to 40 on a chip with a cache for a few cores, and always 100 to 130 between two
// such chips; 50 to 75, at times more than 120, within a chip whose cores share one large cache.
inline constexpr int64_t kFarNs = 360;

// So many looks in succession that take longer make a member far; a single shorter look makes it
// near.
inline constexpr int kLooksForFar = 3;

// Every so many rounds there is a look, which takes half a microsecond if the member is near and
// one if it is far.
inline constexpr int kRoundsToLook = 4;

// With fewer bytes, the fence after non-temporal stores takes longer than what the stores save.
inline constexpr size_t kLeastNonTemporal = 4096;

inline bool stores_non_temporally(bool far, size_t bytes) {
  return far && bytes >= kLeastNonTemporal;
}

inline void copy_for(bool far, std::byte* to, const std::byte* from, size_t bytes) {
  if (stores_non_temporally(far, bytes)) {
    kernels::copy_non_temporal(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

class CacheTopology {
 public:
  // Nanoseconds it takes to read a member's marks, less what reading them takes anyway.
  using Measure = int64_t (*)(const Slots& slots, int local);
  static int64_t time_to_read(const Slots& slots, int local);

  CacheTopology(const Slots& slots, NonTemporalStores stores, Measure measure = time_to_read);

  bool far(int local) const { return long_[static_cast<size_t>(local)] == kLooksForFar; }
  // Whether data for all members takes non-temporal stores, because most of the readers are far.
  bool far_from_most() const { return 2 * far_count_ > slots_.count() - 1; }

  // Before a round of much data is filled, the same on all members: writes the marks if it is time
  // for that.
  void show(uint32_t round);
  // After everyone has filled that round: looks at the marks of one of them.
  void look(uint32_t round);

 private:
  const Slots& slots_;
  Measure measure_;  // null: who is far is given
  // per member of this host: the latest looks that took long, of which kLooksForFar are enough
  std::vector<int> long_;
  int far_count_ = 0;
  int rounds_ = 0;            // since the marks were written
  bool shown_ = false;        // and not yet looked at
  uint32_t shown_round_ = 0;  // when they were
  int next_;                  // the member that was looked at last
};

}  // namespace hvd::collectives
