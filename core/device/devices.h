// SPDX-License-Identifier: Apache-2.0
// The CUDA devices of one context, opened when the first tensor of each comes. Thread safe.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "device/staging.h"

namespace hvd::device {

class Devices {
 public:
  // `wake` makes whoever drives the engine look again; called on threads of the driver.
  explicit Devices(std::function<void()> wake);
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  // The staging of an operation whose tensors are on device `id`.
  Result<std::unique_ptr<Staging>> stage(int id, void* stream);
  // As Device::free_results, of all.
  void free_results();

 private:
  Result<Device*> device(int id);

  const std::shared_ptr<Bell> bell_;
  Mutex mutex_;
  std::shared_ptr<const Driver> driver_ HVD_GUARDED_BY(mutex_);
  std::map<int, std::unique_ptr<Device>> devices_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd::device
