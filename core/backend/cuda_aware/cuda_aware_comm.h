// SPDX-License-Identifier: Apache-2.0
// MPI as the data plane of one process set, for tensors of one device of each member. Operations
// that only move bytes are given the devices' memory. Reductions are not, because MPI would copy to
// the host for them as the engine does, and block meanwhile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device_comm.h"
#include "backend/device_moves.h"
#include "base/clock.h"
#include "collectives/program.h"

namespace hvd::backend::cuda_aware {

// From here on a broadcast to several members is a scatter and a gather: the root sends less than
// everything once, not to each of them.
inline constexpr size_t kSharedBroadcast = size_t{1} << 16;

class CudaAwareComm final : public DeviceComm {
 public:
  static Result<std::unique_ptr<DeviceComm>> open(DeviceMoves& moves, device::Device& device,
                                                  int members, int me);
  ~CudaAwareComm() override;

  std::string name() const override {
    return moves_.library() + ", which is CUDA-aware; reductions through host memory";
  }
  device::Device& device() const override { return device_; }
  void next_stream() override {}
  device::StreamHandle stream() const override { return stream_; }
  Status health() override { return {}; }  // a work is over when its bytes are there

  int score(const Work& work) const override;
  Status start(const Work& work) override;
  Progress poll() override;
  Status result() const override { return failure_; }
  bool fails_by_device() const override { return !move_failed_; }
  bool must_poll() const override { return true; }
  int waiting_for() const override { return -1; }
  void abort() noexcept override;

 private:
  using Program = collectives::Program;
  using Condition = collectives::Condition;

  CudaAwareComm(DeviceMoves& moves, device::Device& device, int members, int me)
      : moves_(moves),
        device_(device),
        members_(static_cast<size_t>(members)),
        me_(static_cast<size_t>(me)) {}

  // An error ends them, and is in failure_.
  Program run();  // runs work_
  Program broadcast(const Item& item);
  Status copy_own(const Item& item) const;
  // A move has begun, or has failed at once.
  bool begun(Status status);
  Condition reached();  // by the stream: moment_
  Condition moved();
  bool fails(Status status);

  DeviceMoves& moves_;
  device::Device& device_;
  const size_t members_;
  const size_t me_;
  device::StreamHandle stream_ = nullptr;
  // The work that runs.
  const Work* work_ = nullptr;
  Program program_;
  device::Moment moment_;
  bool moving_ = false;
  bool move_failed_ = false;
  Status failure_;
  Time failed_at_{};
  std::vector<size_t> counts_;
  std::vector<size_t> others_;
};

}  // namespace hvd::backend::cuda_aware
