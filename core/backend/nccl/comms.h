// SPDX-License-Identifier: Apache-2.0
// The library's communicators of one member of a process set: the first, which the members connect,
// and those that are split from it. Never blocking: the library connects in a thread of its own,
// and is asked.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/nccl/library.h"
#include "base/clock.h"
#include "device/device.h"

namespace hvd::backend::nccl {

class Comms {
 public:
  Comms(std::shared_ptr<const Library> library, device::Device& device, int members, int me)
      : library_(std::move(library)), device_(device), members_(members), me_(me) {}
  // Aborts the communicators that have not left.
  ~Comms() { abort(); }
  Comms(const Comms&) = delete;
  Comms& operator=(const Comms&) = delete;

  // Members with equal colors are together, in their order.
  struct Split {
    size_t of;  // an earlier communicator
    int color;
  };
  // Begins to connect the first one; connect() goes on with it and with one for each split.
  Status begin(const UniqueId& id, std::vector<Split> splits);
  Progress connect();
  // Instead of begin(), with one that connects the members already.
  void adopt(CommHandle comm, std::vector<Split> splits);
  // Splits one off the first for the members that say so; when poll() is done, take_split_off(), or
  // nullptr for the others.
  Status split_off(bool member);
  CommHandle take_split_off() { return std::exchange(split_off_, nullptr); }
  // Gives the first communicator, of which nothing has been split, to the caller.
  CommHandle give_up();
  bool connected() const { return connected_; }
  // How connecting has ended, or what the library has said since.
  const Status& result() const { return result_; }

  CommHandle operator[](size_t index) const { return all_[index]; }
  // Asks the library about all: whether what they have been given is queued.
  Progress poll();
  Status check(int error, CommHandle comm);
  // Waits at most a second for the other members to leave as well; false if they have not. Other
  // members may yet read bytes of this member's works in memory of the library, which lets go of
  // them when all have left. A member that stays longer has read them by then.
  bool leave();
  void destroy();
  // All at once: the library may not let go of one before the others' works have ended.
  void abort() noexcept;
  bool gone() const { return all_.empty(); }
  // In a process that has been forked, whose parent has them.
  void forget() {
    all_.clear();
    split_off_ = nullptr;
  }

 private:
  Status split(const Split& split);
  Status split(CommHandle parent, int color, CommHandle* made);
  Status ask(CommHandle comm, int* state);
  bool excused(int state);
  const Calls& calls() const { return library_->calls(); }

  const std::shared_ptr<const Library> library_;
  device::Device& device_;
  const int members_;
  const int me_;
  std::vector<CommHandle> all_;
  CommHandle split_off_ = nullptr;
  std::vector<Split> splits_;
  bool connected_ = false;
  Status result_;
  Time remote_since_ = kNever;  // when the library first said that another rank has gone
};

}  // namespace hvd::backend::nccl
