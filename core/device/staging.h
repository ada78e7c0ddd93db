// SPDX-License-Identifier: Apache-2.0
// The way of one operation's tensors from a device to host memory and back. What is queued on the caller's stream when the
// operation is submitted comes before the first copy; what is queued there after its end comes after the last.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.h"

namespace hvd::device {

class Staging {
 public:
  // Notes what the caller has queued on `stream`, which must live until store().
  static Result<std::unique_ptr<Staging>> begin(Device& device, StreamHandle stream);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  Device& device() const { return device_; }

  // One tensor: where its bytes are in host memory. A null or empty source is not loaded, a null or empty target not stored.
  struct Tensor {
    const void* source = nullptr;
    size_t source_bytes = 0;
    size_t source_at = 0;  // in host memory
    void* target = nullptr;
    size_t target_bytes = 0;
    size_t target_at = 0;
  };
  // Its host memory, of the larger of both ends.
  Result<std::byte*> add(const Tensor& tensor);
  // A result on the device, given back with this.
  Result<void*> allocate(size_t bytes);

  // Queues the copies to host memory. With `rings` the bell rings when they, and those queued before, have arrived.
  Status load(bool rings);
  Result<bool> loaded() const { return device_.reached(loaded_); }
  // Queues the copies back, and the caller's stream behind them.
  Status store();

 private:
  Staging(Device& device, StreamHandle stream, Moment ready);

  Device& device_;
  const StreamHandle stream_;
  Moment ready_;
  Moment loaded_;
  Moment stored_;
  Device::Way last_way_ = Device::Way::kToHost;  // of the copies that have been queued
  std::vector<Tensor> tensors_;
  std::vector<Device::HostMemory> host_;  // parallel to tensors_
  std::vector<void*> results_;
};

}  // namespace hvd::device
