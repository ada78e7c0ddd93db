// SPDX-License-Identifier: Apache-2.0
// How the members of a set find out whether NCCL can serve them: each shows its capabilities, and
// all draw the same conclusion.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/nccl/nccl_comm.h"

namespace hvd::backend::nccl {

class NcclFactory final : public DeviceCommFactory {
 public:
  struct Settings {
    std::string path;     // see Library::open
    std::string kernels;  // see Kernels::load
    Status refused;       // ok, or why no tensor of this rank is to go through NCCL
    int streams = 1;
    bool by_hosts = false;  // allreduce inside each host, then between hosts
    bool packs = true;      // small tensors are copied together
    int host = 0;           // this rank's host
  };
  explicit NcclFactory(Settings settings) : settings_(std::move(settings)) {}
  Bytes capabilities(const Place& place) override;
  Result<std::unique_ptr<DeviceComm>> open(const Place& place,
                                           std::span<const std::byte> capabilities,
                                           const Describe& describe) override;

 private:
  struct Capabilities;
  Status fill(const Place& place, Capabilities* mine);
  Status prepare_tools(device::Device& device);
  NcclComm::Tools take_tools(device::Device& device);
  static Status compare(const std::vector<Capabilities>& all, const Describe& describe);
  static Shape shape_of(const std::vector<Capabilities>& all, int member);

  const Settings settings_;
  std::shared_ptr<const Library> library_;
  // Buffers are those for all capabilities that have been shown; several sets may meet at the same
  // time.
  struct DeviceTools {
    std::shared_ptr<const device::Kernels> kernels;
    std::vector<std::vector<std::unique_ptr<FusionBuffer>>> buffers;
  };
  std::map<const device::Device*, DeviceTools> tools_;
};

}  // namespace hvd::backend::nccl
