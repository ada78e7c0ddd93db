// SPDX-License-Identifier: Apache-2.0
// Where the engine's thread runs, and for how long at a time: the option thread_placement.
//
// Where the ranks of a host fill its cores, the engine's thread runs on the core of the thread that
// submits: the engine's thread has that core when its own rank waits. The kernel would put the
// engine's thread beside the thread that rings its bell, which is on the core of another rank; then
// one core has the work of two engines to do, and the other none. With cores to spare the engine's
// thread goes where the kernel finds one. The thread's time slices are short everywhere, because it
// does little at a time, for which other ranks wait.
#pragma once

#include <atomic>
#include <thread>

#include "base/cores.h"

namespace hvd::engine {

class ThreadPlacement {
 public:
  // `wanted`: by the option; otherwise the kernel alone decides. `filled`: see there.
  ThreadPlacement(bool wanted, bool filled, const Cores& cores)
      : cores_(cores), wanted_(wanted), core_(wanted && filled ? kUnknown : kNone) {}

  // Whether the ranks of this host fill its cores. Ranks that are bound to cores each, or a machine
  // that is shared with others, are none of our business.
  static bool filled(int ranks_here, const Cores& cores) {
    return ranks_here > 1 && ranks_here == cores.count() && cores.all();
  }

  // Called on the thread that submits.
  void move_here() {
    int before = core_.load(std::memory_order_relaxed);
    if (before == kNone) return;
    if (const int core = current_core(); core >= 0 && core != before)
      core_.compare_exchange_strong(before, core);
  }
  // The thread leaves its core for good: threads that a library starts on the engine's thread are
  // not to stay on its core.
  void leave() { core_.store(kNone); }

  // The engine's thread is the calling one.
  void begin() {
    thread_ = std::this_thread::get_id();
    if (wanted_) prefer_short_slices();
  }
  // Called by the driver; only the engine's thread goes.
  void go_there() {
    if (std::this_thread::get_id() != thread_) return;
    const int core = core_.load(std::memory_order_relaxed);
    if (core == reached_) return;
    if (core >= 0) {
      Cores::only(core).use();  // where the core is refused, the thread stays free
    } else if (reached_ >= 0) {
      cores_.use();
    }
    reached_ = core;
  }

 private:
  static constexpr int kUnknown = -1;
  static constexpr int kNone = -2;

  const Cores cores_;  // the cores where the thread may be without a placement
  const bool wanted_;
  std::atomic<int> core_;
  std::atomic<std::thread::id> thread_{};
  int reached_ = kUnknown;
};

}  // namespace hvd::engine
