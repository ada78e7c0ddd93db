// SPDX-License-Identifier: Apache-2.0
// On which cores a thread runs, and how long its time slices there are.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace hvd {

// Cores that the calling thread may use, which a container may have made fewer than the machine
// has.
class Cores {
 public:
  Cores() noexcept {
    CPU_ZERO(&set_);
    known_ = sched_getaffinity(0, sizeof set_, &set_) == 0;
  }
  static Cores only(int core) noexcept { return Cores(core); }

  int count() const noexcept {
    const int count = known_ ? CPU_COUNT(&set_) : 0;
    return count < 1 ? 1 : count;
  }
  // Whether these are all of the machine, so that other processes may use no others.
  bool all() const noexcept { return known_ && count() == sysconf(_SC_NPROCESSORS_ONLN); }
  // From now on the calling thread runs on these. False if it may not; then nothing changes.
  bool use() const noexcept { return known_ && sched_setaffinity(0, sizeof set_, &set_) == 0; }

 private:
  explicit Cores(int core) noexcept : known_(true) {
    CPU_ZERO(&set_);
    CPU_SET(core, &set_);
  }

  cpu_set_t set_;
  bool known_;
};

inline int current_core() noexcept { return sched_getcpu(); }  // -1 where that is unknown

// The length of a time slice that Linux gives where there is one core; more with more cores.
inline constexpr uint64_t kShortSliceNs = 700'000;

// Asks the kernel for time slices of that length for the calling thread. A thread with short ones
// is let in sooner than threads with longer ones (Linux 6.12; before, nothing changes), and its
// share of a core stays the same. Still shorter slices would not pay: data of some megabytes take a
// millisecond, and being put off in between costs more than it saves.
inline void prefer_short_slices() noexcept {
  struct {  // sched_attr of the kernel, whose header does not go with <sched.h>
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } wanted{};
  if (syscall(SYS_sched_getattr, 0, &wanted, sizeof wanted, 0U) != 0 ||
      wanted.policy != SCHED_OTHER)
    return;
  wanted.runtime = kShortSliceNs;
  syscall(SYS_sched_setattr, 0, &wanted, 0U);
}

}  // namespace hvd
