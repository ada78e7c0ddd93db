// SPDX-License-Identifier: Apache-2.0
// What the engine needs of whoever moves the bytes. The engine decides what runs and in which order, the same on every
// member; a backend only runs it. Nothing here blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/status.h"

namespace hvd::backend {

enum class Kind : uint8_t { kAllreduce, kAllgather, kBroadcast, kAlltoall, kReducescatter };

// A tensor. in == nullptr in an allreduce: this rank contributes nothing. out == nullptr: the
// result is not wanted here.
struct Item {
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;                 // elements (allreduce), bytes (broadcast)
  std::span<const size_t> parts{};  // per member: bytes (allgather), elements (reducescatter)
};

// A collective over one or more tensors of one dtype.
struct Work {
  Kind kind = Kind::kAllreduce;
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;  // never kAverage: the engine turns that into kSum with a postscale
  double prescale = 1.0;
  double postscale = 1.0;
  int root_member = 0;
  std::span<const Item> items{};
  std::span<const size_t> send_bytes{};     // alltoall, per member
  std::span<const size_t> receive_bytes{};  // alltoall, per member
};

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
  // Whether what runs makes progress in poll() alone: then nothing wakes a driver that sleeps meanwhile.
  virtual bool must_poll() const { return false; }
  // The member whose action is awaited, or -1.
  virtual int waiting_for() const = 0;
  // The same members' library, if it could be one that is given memory of devices, else nullptr; lives as long as the comm.
  virtual DeviceMoves* device_moves() { return nullptr; }
  // Forgets what is running; the comm can not be used afterwards.
  virtual void abort() noexcept = 0;
};

// Opens comms for process sets; collective over the members; called without the progress role; may block.
class CommFactory {
 public:
  virtual ~CommFactory() = default;
  virtual Result<std::unique_ptr<Comm>> open(int lane_id, const std::vector<int>& ranks, Time deadline) = 0;
};

}  // namespace hvd::backend
