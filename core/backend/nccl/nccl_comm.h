// SPDX-License-Identifier: Apache-2.0
// NCCL as the data plane of one process set, for tensors of one device of each member.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/device_comm.h"
#include "backend/nccl/comms.h"
#include "backend/nccl/fusion.h"
#include "backend/nccl/works.h"
#include "collectives/program.h"
#include "device/kernels.h"

namespace hvd::backend::nccl {

// The settings that all members have agreed on.
struct Shape {
  bool splits = false;  // whether the library does
  size_t streams = 1;
  // members on this one's host, in order, if allreduce goes inside the hosts first; else none
  std::vector<int> local;
  int place = 0;  // in local
  int host = 0;
};

class NcclComm final : public DeviceComm {
 public:
  // The kernels and buffers that go with the library; empty unless all members have them.
  struct Tools {
    std::shared_ptr<const device::Kernels> kernels;
    std::vector<std::unique_ptr<FusionBuffer>> buffers;  // a buffer for each stream
    // whether small tensors are copied together
    bool packs = true;
    std::string why_none;
  };
  // Begins to connect member `me` of `members`: by the id, or with what has been split off a larger
  // set's.
  static Result<std::unique_ptr<DeviceComm>> open(std::shared_ptr<const Library> library,
                                                  device::Device& device, Tools tools, Shape shape,
                                                  const UniqueId& id, DeviceComm* split,
                                                  int members, int me);
  // Waits at most 3 s for works that are queued, and 1 s for the other members to leave as well;
  // aborts what is left then.
  ~NcclComm() override;
  // `in_order` it waits for works that are queued as long as they take.
  void begin_end(bool in_order) noexcept override;
  bool ended() const override { return ended_; }

  std::string name() const override;
  device::Device& device() const override { return device_; }
  void next_stream() override { stream_index_ = (stream_index_ + 1) % streams_.size(); }
  device::StreamHandle stream() const override { return streams_[stream_index_]; }
  Status health() override;

  int score(const Work& work) const override;
  Status start(const Work& work) override;
  Progress poll() override;
  bool splits() const override { return shape_.splits; }
  Status start_split(bool member) override;
  std::unique_ptr<DeviceComm> take_split() override;
  Status result() const override { return failure_.ok() ? comms_.result() : failure_; }
  bool must_poll() const override { return true; }
  int waiting_for() const override { return -1; }
  void abort() noexcept override;

 private:
  using Program = collectives::Program;
  using Condition = collectives::Condition;
  // A part of the members, or all, in one of the communicators.
  struct Circle {
    CommHandle comm;
    int members;
    int me;
  };

  NcclComm(std::shared_ptr<const Library> library, device::Device& device, Tools tools, Shape shape,
           int members, int me);
  Status begin(const UniqueId& id, DeviceComm* split);
  bool by_hosts() const { return !shape_.local.empty(); }
  // The circles of the current stream's communicators.
  Circle everybody() const;
  Circle neighbours() const;
  Circle counterparts() const;

  Result<int> op_of(const Circle& circle, const Work& work, double factor);
  // Makes one group of calls. Nothing else may be asked of the library, nor put on the stream,
  // before the group is queued().
  Status call(const Circle& circle, const Work& work, double factor);
  Condition queued();
  // An error ends these programs, and is in failure_.
  Program run();  // runs work_
  Program reduce(const Work& work, double factor);
  Program reduce_fused(Scaling scaling);
  Program split_off(bool member);
  bool fails(Status status);
  Status apply(double factor, DType dtype,
               const std::vector<device::Kernels::Segment>& segments) const;
  Status scale_results(double factor) const;
  bool idle() const;
  void end() noexcept;
  const Calls& calls() const { return library_->calls(); }

  const std::shared_ptr<const Library> library_;
  device::Device& device_;
  const Tools tools_;
  const Shape shape_;
  const int members_;
  const int me_;
  Comms comms_;
  std::vector<StreamHandle> streams_;
  size_t stream_index_ = 0;
  // The work that runs.
  const Work* work_ = nullptr;
  Program program_;
  Status failure_;
  Fusion fusion_;
  // The latest factor of each communicator, which is likely to be the next one too.
  struct Factor {
    DType dtype;
    double value;
    int op;
  };
  std::map<CommHandle, Factor> factors_;
  // The library may block while it ends, so it does that on a thread of its own.
  std::thread ending_;
  std::atomic<Time> limit_{kNever};  // until when it waits for works
  std::atomic<bool> ended_{false};
};

}  // namespace hvd::backend::nccl
