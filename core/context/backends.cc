// SPDX-License-Identifier: Apache-2.0
#include "context/backends.h"

#include <algorithm>

#include "backend/cuda_aware/cuda_aware_factory.h"
#include "backend/nccl/nccl_factory.h"
#include "backend/plugin/library.h"
#include "backend/plugin/mpi_launch.h"

namespace hvd {

namespace {

constexpr int kThreadMultiple = 3;

Status refusal(const Options& options) {
  if (options.cpu_operations == backend::plugin::kNative) return {};
  const std::string sends = "cpu_operations: " + options.cpu_operations;
  if (options.security == "encrypt") {
    return Status(
        Code::kUnsupported,
        sends + " sends in plain text, which security \"encrypt\" forbids; native encrypts");
  }
  if (options.data_mac) {
    return Status(Code::kUnsupported,
                  sends + " sends without checksums, which data_mac 1 asks for; native has them");
  }
  return {};
}

}  // namespace

backend::plugin::Choice choose_backend(const Options& options) {
  backend::plugin::Choice choice;
  choice.name = options.cpu_operations;
  choice.folder = options.backend_path;
  choice.refused = refusal(options);
  choice.hierarchical = options.allreduce_by_hosts();
  choice.settings.one_thread = options.mpi_threads_disable;
  choice.settings.timeout_ms = static_cast<int64_t>(options.gloo_timeout_seconds * 1000);
  choice.settings.interface_name = options.gloo_iface;
  choice.settings.communicator = static_cast<uint64_t>(options.mpi_communicator);
  return choice;
}

std::unique_ptr<backend::DeviceCommFactory> choose_device_comms(const Options& options,
                                                                const Topology& topology) {
  if (options.gpu_operations == "mpi") {
    const std::string other = "gpu_operations is mpi, cpu_operations is " + options.cpu_operations +
                              ": MPI has to move both";
    return std::make_unique<backend::cuda_aware::CudaAwareFactory>(
        options.cpu_operations == "mpi" ? Status() : Status(Code::kUnsupported, other));
  }
  const bool wanted = options.gpu_operations == "auto" || options.gpu_operations == "nccl";
  backend::nccl::NcclFactory::Settings settings;
  settings.path = options.nccl_library;
  settings.kernels = options.cuda_kernels;
  if (!wanted)
    settings.refused = Status(Code::kUnsupported, "gpu_operations is " + options.gpu_operations);
  settings.streams = std::max(1, static_cast<int>(options.num_nccl_streams));
  settings.by_hosts = options.torus_allreduce;
  settings.packs = options.batch_d2d_memcopies;
  settings.host = topology.host_index(topology.rank());
  return std::make_unique<backend::nccl::NcclFactory>(std::move(settings));
}

rendezvous::MpiBroadcast broadcast_by_mpi(const Options& options) {
  return [folder = options.backend_path, one_thread = options.mpi_threads_disable](
             const rendezvous::Place& place, std::string* text) -> Status {
    const auto mpi = backend::plugin::MpiLaunch::start(folder, one_thread);
    if (!mpi.ok()) return mpi.status();
    if (mpi.value().rank() != place.rank || mpi.value().size() != place.size) {
      return {Code::kInvalidArgument, "init: MPI says rank " + std::to_string(mpi.value().rank()) +
                                          " of " + std::to_string(mpi.value().size()) +
                                          ", its launcher rank " + std::to_string(place.rank) +
                                          " of " + std::to_string(place.size)};
    }
    return mpi.value().broadcast(text, 0);
  };
}

bool has_backend_feature(std::string_view name, const Environment& environment) {
  if (name == "nccl")
    return backend::nccl::Library::open(environment("HOROVOD_NCCL_LIBRARY").value_or("")).ok();
  const std::string_view library_name = name.substr(0, name.find('.'));
  const Result<backend::plugin::Library> library = backend::plugin::Library::load(
      std::string(library_name), environment("HOROVOD_BACKEND_PATH").value_or(""));
  if (!library.ok() || !library.value().version().ok()) return false;
  if (name == library_name) return true;
  const auto level = library.value().table().thread_level;
  if (level == nullptr) return false;
  if (name == "mpi.initialized") return level() >= 0;
  return name == "mpi.threads" && level() >= kThreadMultiple;
}

}  // namespace hvd
