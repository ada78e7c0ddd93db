// SPDX-License-Identifier: Apache-2.0
// The way of one operation's tensors from the caller's stream to the data plane, and back: copied
// to host memory, or where they are. Work that is queued on the caller's stream when the operation
// is submitted comes before the operation; work that is queued there after the operation's end
// comes after it.
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

  // A tensor, and the place of its bytes in host memory. A null or empty source is not loaded, a
  // null or empty target not stored.
  struct Tensor {
    const void* source = nullptr;
    size_t source_bytes = 0;
    size_t source_at = 0;  // in host memory
    void* target = nullptr;
    size_t target_bytes = 0;
    size_t target_at = 0;
  };
  // The host memory for a tensor, large enough for source and target.
  Result<std::byte*> add(const Tensor& tensor);
  bool in_host_memory() const { return !tensors_.empty(); }
  // A result on the device, given back with this.
  Result<void*> allocate(size_t bytes);

  // Queues the copies to host memory. With `rings` the bell rings when they, and those queued
  // before, have arrived.
  Status load(bool rings);
  Result<bool> loaded() const { return device_.reached(loaded_); }
  // Queues the copies back, and the caller's stream behind them.
  Status store();

  // Instead of loaded() and store(): work that `stream` of `device` is given from now on finds the
  // tensors as the caller has left them, added tensors in host memory. Call load() before if a
  // tensor has been added.
  Status enter(const Device& device, StreamHandle stream) const;
  // Work that the caller's stream is given from now on finds the results that are there at the
  // moment.
  Status leave(const Moment& done);

 private:
  Staging(Device& device, StreamHandle stream, Moment ready);
  Status store_after(const Moment& moment);

  Device& device_;
  const StreamHandle stream_;
  Moment ready_;
  Moment loaded_;
  Moment stored_;
  Device::Way last_way_ = Device::Way::kToHost;  // the way of the copies queued last
  std::vector<Tensor> tensors_;
  std::vector<Device::HostMemory> host_;  // parallel to tensors_
  std::vector<void*> results_;
};

}  // namespace hvd::device
