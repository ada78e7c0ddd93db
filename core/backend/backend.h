// SPDX-License-Identifier: Apache-2.0
// What the engine needs of whoever moves the bytes. The engine decides what runs and in which
// order, the same on every member; a backend only runs it. Nothing here blocks.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/effort.h"
#include "collectives/work.h"

namespace hvd::backend {

using collectives::Effort;
using collectives::Item;
using collectives::Kind;
using collectives::Work;

// A library sees a connection end. The engine's own detection knows who died, and of what, perhaps
// a moment later, which is the better answer. So a failure of a library is told only if no such
// answer comes meanwhile.
inline constexpr Duration kGraceOfLibraries = std::chrono::milliseconds(400);

enum class Progress { kWaiting, kMoved, kDone };

class DeviceMoves;  // device_moves.h

// The data plane of one process set. Used by the engine's driver only.
class Comm {
 public:
  virtual ~Comm() = default;
  // < 0: cannot run the work. The comm with the highest score runs it.
  virtual int score(const Work& work) const = 0;
  // Begins a work, while no other one runs. `work` and all that `work` points to stay valid until
  // poll() says kDone or the comm is destroyed.
  virtual Status start(const Work& work) = 0;
  virtual Progress poll() = 0;
  // How the work ended that poll() has called done.
  virtual Status result() const { return {}; }
  // Ticks that the works so far have taken, as far as the comm can tell.
  virtual Effort effort() const { return {}; }
  // Whether what runs makes progress in poll() alone: then nothing wakes a driver that sleeps
  // meanwhile.
  virtual bool must_poll() const { return false; }
  // The member whose action is awaited, or -1.
  virtual int waiting_for() const = 0;
  // The same members' library, if it could be one that is given memory of devices, else nullptr;
  // lives as long as the comm.
  virtual DeviceMoves* device_moves() { return nullptr; }
  // Forgets what is running; the comm can not be used afterwards.
  virtual void abort() noexcept = 0;
};

// Opens comms for process sets; collective over the members; called without the progress role; may
// block.
class CommFactory {
 public:
  virtual ~CommFactory() = default;
  virtual Result<std::unique_ptr<Comm>> open(int lane_id, const std::vector<int>& ranks,
                                             Time deadline) = 0;
};

}  // namespace hvd::backend
