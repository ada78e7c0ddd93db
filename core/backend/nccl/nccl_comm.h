// SPDX-License-Identifier: Apache-2.0
// NCCL as the data plane of one process set, for tensors of one device of each member. Never blocking: the library connects in a
// thread of its own, and is asked.
#pragma once

#include <map>
#include <memory>

#include "backend/device_comm.h"
#include "backend/nccl/fusion.h"
#include "backend/nccl/library.h"
#include "backend/nccl/works.h"
#include "base/clock.h"
#include "device/kernels.h"

namespace hvd::backend::nccl {

class NcclComm final : public DeviceComm {
 public:
  // What the members have besides the library; nothing if it is not on all.
  struct Tools {
    std::shared_ptr<const device::Kernels> kernels;
    std::unique_ptr<FusionBuffer> buffer;
    std::string why_none;
  };
  // Begins to connect member `me` of `members`.
  static Result<std::unique_ptr<DeviceComm>> open(std::shared_ptr<const Library> library, device::Device& device, Tools tools,
                                                  const UniqueId& id, int members, int me);
  // Waits at most 3 s for works that are queued, and 1 s for the other members to leave as well; aborts what is left then.
  ~NcclComm() override;

  std::string name() const override;
  device::Device& device() const override { return device_; }
  device::StreamHandle stream() const override { return stream_; }
  Status health() override;

  int score(const Work& work) const override;
  Status start(const Work& work) override;
  Progress poll() override;
  Status result() const override { return result_; }
  bool must_poll() const override { return true; }
  int waiting_for() const override { return -1; }
  void abort() noexcept override;

 private:
  NcclComm(std::shared_ptr<const Library> library, device::Device& device, Tools tools, int members, int me)
      : library_(std::move(library)), device_(device), tools_(std::move(tools)), members_(members), me_(me) {}
  Status begin(const UniqueId& id);
  Status ask(int* state);
  bool excused(int state);
  Result<int> op_of(const Work& work, double factor);
  Status call(const Work& work, double factor);
  Status reduce_fused(const Work& work, const Scaling& scaling);
  Status reduce_adasum(const Work& work);
  Status apply(double factor, DType dtype, const std::vector<device::Kernels::Part>& parts) const;
  void drop_factor();
  bool leave();
  const Calls& calls() const { return library_->calls(); }

  const std::shared_ptr<const Library> library_;
  device::Device& device_;
  const Tools tools_;
  const int members_;
  const int me_;
  CommHandle comm_ = nullptr;
  StreamHandle stream_ = nullptr;
  Fusion fusion_;
  Status result_;
  Time remote_since_ = kNever;  // when the library first said that another rank has gone
  // The latest factor, which is likely to be the next one too.
  bool has_factor_ = false;
  DType factor_dtype_ = DType::kFloat32;
  double factor_ = 1.0;
  int factor_op_ = kSum;
};

class NcclFactory final : public DeviceCommFactory {
 public:
  // `path`: see Library::open; `kernels`: see Kernels::load. `refused`: ok, or why no tensor of this rank is to go through NCCL.
  NcclFactory(std::string path, std::string kernels, Status refused)
      : path_(std::move(path)), kernels_from_(std::move(kernels)), refused_(std::move(refused)) {}
  Bytes card(device::Device& device, int member) override;
  Result<std::unique_ptr<DeviceComm>> open(device::Device& device, std::span<const std::byte> cards, int member,
                                           const std::function<std::string(int member)>& describe) override;

 private:
  struct Card;
  Status fill(device::Device& device, int member, Card* card);
  Status prepare_tools(device::Device& device);
  NcclComm::Tools take_tools(device::Device& device);

  const std::string path_;
  const std::string kernels_from_;
  const Status refused_;
  std::shared_ptr<const Library> library_;
  // Buffers are one for each card that has been shown; several sets may meet at the same time.
  struct DeviceTools {
    std::shared_ptr<const device::Kernels> kernels;
    std::vector<std::unique_ptr<FusionBuffer>> buffers;
  };
  std::map<const device::Device*, DeviceTools> tools_;
};

}  // namespace hvd::backend::nccl
