// SPDX-License-Identifier: Apache-2.0
// Whether, and by which library, the members of a process set move tensors from device to device.
// The members meet once, in the order of the plan, and draw the same conclusion. Only the engine's
// driver uses a device plane.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/device_comm.h"
#include "base/clock.h"
#include "base/log.h"
#include "device/device.h"

namespace hvd::engine {

class DevicePlane {
 public:
  struct Around {
    backend::DeviceCommFactory* factory = nullptr;  // nullptr: tensors go through host memory
    const Logger* log = nullptr;
    // how loud it is that tensors have to go through host memory
    LogLevel regret = LogLevel::kInfo;
    std::function<std::string(int member)> describe;
    Duration limit{0};  // for connecting
  };
  // `split`: the comm for this set, split off the world's comm; nullptr if the world's comm does
  // not split, or the world has not met.
  DevicePlane(int members, int me, Around around, std::unique_ptr<backend::DeviceComm> split)
      : members_(members), me_(me), around_(std::move(around)), split_(std::move(split)) {}

  bool wanted() const { return around_.factory != nullptr; }
  bool begun() const { return step_ != Step::kIdle; }
  // Begins the meeting of the members, of which this one has tensors of `device`; `comm` is theirs
  // for memory of the host. Called once.
  void begin(device::Device& device, backend::Comm& comm);
  // Goes on with the meeting, whose messages `comm` carries; kDone when the meeting has ended, in
  // whatever way. Nothing else runs on `comm` during the meeting.
  backend::Progress meet(backend::Comm& comm, Time now);
  bool met() const { return step_ == Step::kMet; }
  // Whether nothing wakes a driver that sleeps during the meeting.
  bool must_poll() const { return step_ == Step::kConnecting; }
  // The member awaited, or -1.
  int waiting_for(const backend::Comm& comm) const { return exchanging_ ? comm.waiting_for() : -1; }
  // The library's comm if the meeting has ended well, else nullptr.
  backend::DeviceComm* comm() const { return met() && outcome_.ok() ? comm_.get() : nullptr; }
  // The device of this rank that is, or is about to be, connected; nullptr if none is.
  device::Device* device() const { return outcome_.ok() ? device_ : nullptr; }
  // Whether the library can run `work`, once this rank has begun to connect; the same on all
  // members.
  bool runs(const backend::Work& work) const { return comm_ && comm_->score(work) >= 0; }
  // An error of this rank's data or of its messages during the meeting; breaks the context.
  const Status& failure() const { return failure_; }

  // A group begins to run; the group's stream is not given to another group until the group is
  // queued.
  void next_stream() { comm_->next_stream(); }
  // The works that the group's stream has been given so far have to end one day; health() looks
  // after them until then.
  Result<const device::Moment*> mark();
  // The library's complaint about works that are under way, or ok. `under_way`: whether there are
  // such works.
  Status health(bool* under_way);
  void abort() noexcept;
  // Begins an end as DeviceComm::begin_end does.
  void begin_end(bool in_order) noexcept;
  // Begins an end in order. The returned comms go on after the set has gone, and live no longer
  // than the device.
  std::vector<std::unique_ptr<backend::DeviceComm>> leave();

 private:
  enum class Step { kIdle, kShowing, kConnecting, kConcluding, kMet };

  backend::Progress exchange(backend::Comm& comm, size_t bytes);
  void connect(backend::Comm& comm);
  void give_up(std::unique_ptr<backend::DeviceComm> comm);
  void conclude();
  void read_conclusions();
  void tell() const;

  const int members_;
  const int me_;
  const Around around_;
  Step step_ = Step::kIdle;
  device::Device* device_ = nullptr;
  Time deadline_ = kNever;
  bool exchanging_ = false;
  // The exchange under way: the own bytes, everybody's, and its work.
  Bytes mine_;
  Bytes all_;
  std::vector<size_t> parts_;
  backend::Item item_;
  backend::Work work_;
  std::unique_ptr<backend::DeviceComm> split_;
  std::unique_ptr<backend::DeviceComm> comm_;
  // Comms on their way to their end, because some member could not connect.
  std::vector<std::unique_ptr<backend::DeviceComm>> unused_;
  Status connected_;  // whether this member has connected
  Status outcome_;    // whether all members have connected
  Status failure_;
  std::map<device::StreamHandle, device::Moment> latest_;
};

}  // namespace hvd::engine
