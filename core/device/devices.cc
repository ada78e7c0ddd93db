// SPDX-License-Identifier: Apache-2.0
#include "device/devices.h"

#include <utility>
#include <vector>

namespace hvd::device {

Devices::Devices(std::function<void()> wake) : bell_(std::make_shared<Bell>(std::move(wake))) {}

Devices::~Devices() { bell_->close(); }

Result<Device*> Devices::device(int id) {
  MutexLock lock(mutex_);
  if (const auto found = devices_.find(id); found != devices_.end()) return found->second.get();
  if (!driver_) {
    Result<std::shared_ptr<const Driver>> driver = Driver::open();
    if (!driver.ok()) return driver.status();
    driver_ = std::move(driver).value();
  }
  Result<std::unique_ptr<Device>> opened = Device::open(driver_, id, bell_);
  if (!opened.ok()) return opened.status();
  return (devices_[id] = std::move(opened).value()).get();
}

void Devices::free_results() {
  std::vector<Device*> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, device] : devices_) all.push_back(device.get());
  }
  for (Device* device : all) device->free_results();
}

Result<std::unique_ptr<Staging>> Devices::stage(int id, void* stream) {
  Result<Device*> on = device(id);
  if (!on.ok()) return on.status();
  return Staging::begin(*on.value(), static_cast<StreamHandle>(stream));
}

}  // namespace hvd::device
