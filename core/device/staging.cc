// SPDX-License-Identifier: Apache-2.0
#include "device/staging.h"

#include <algorithm>
#include <utility>

namespace hvd::device {

Staging::Staging(Device& device, StreamHandle stream, Moment ready)
    : device_(device), stream_(stream), ready_(std::move(ready)) {}

Result<std::unique_ptr<Staging>> Staging::begin(Device& device, StreamHandle stream) {
  HVD_TRY(device.check_stream(stream));
  Result<Moment> ready = device.mark(stream);
  if (!ready.ok()) return ready.status();
  return std::unique_ptr<Staging>(new Staging(device, stream, std::move(ready).value()));
}

Staging::~Staging() {
  for (void* result : results_) device_.free(result);
  if (host_.empty()) return;
  // An operation that was given up may have copies under way: memory is in use until the copies
  // that are queued by now are done. A device that marks no moments any more is broken, and its
  // memory is not used again.
  Result<Moment> until = stored_ ? std::move(stored_) : device_.mark(last_way_);
  if (until.ok()) device_.give_host_memory(std::move(host_), std::move(until).value());
}

Result<std::byte*> Staging::add(const Tensor& tensor) {
  const size_t bytes =
      std::max(tensor.source_at + tensor.source_bytes, tensor.target_at + tensor.target_bytes);
  const Result<Device::HostMemory> memory = device_.take_host_memory(bytes);
  if (!memory.ok()) return memory.status();
  tensors_.push_back(tensor);
  host_.push_back(memory.value());
  return static_cast<std::byte*>(memory.value().memory);
}

Result<void*> Staging::allocate(size_t bytes) {
  Result<void*> memory = device_.allocate(bytes);
  if (memory.ok()) results_.push_back(memory.value());
  return memory;
}

Status Staging::load(bool rings) {
  HVD_TRY(device_.order(Device::Way::kToHost, ready_));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    if (tensor.source == nullptr || tensor.source_bytes == 0) continue;
    auto* to = static_cast<std::byte*>(host_[i].memory) + tensor.source_at;
    HVD_TRY(device_.copy(Device::Way::kToHost, to, tensor.source, tensor.source_bytes));
  }
  Result<Moment> loaded = device_.mark(Device::Way::kToHost, rings);
  if (!loaded.ok()) return loaded.status();
  loaded_ = std::move(loaded).value();
  return {};
}

Status Staging::store() { return store_after(ready_); }

Status Staging::enter(const Device& device, StreamHandle stream) const {
  HVD_TRY(device.wait(stream, ready_));
  return loaded_ ? device.wait(stream, loaded_) : Status();
}

Status Staging::leave(const Moment& done) {
  return tensors_.empty() ? device_.wait(stream_, done) : store_after(done);
}

// Host memory is in use until its copies, and the moment, are done.
Status Staging::store_after(const Moment& moment) {
  last_way_ = Device::Way::kToDevice;
  HVD_TRY(device_.order(Device::Way::kToDevice, moment));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    if (tensor.target == nullptr || tensor.target_bytes == 0) continue;
    const auto* from = static_cast<const std::byte*>(host_[i].memory) + tensor.target_at;
    HVD_TRY(device_.copy(Device::Way::kToDevice, tensor.target, from, tensor.target_bytes));
  }
  Result<Moment> stored = device_.mark(Device::Way::kToDevice);
  if (!stored.ok()) return stored.status();
  stored_ = std::move(stored).value();
  return device_.wait(stream_, stored_);
}

}  // namespace hvd::device
