// SPDX-License-Identifier: Apache-2.0
// Several tensors of one allreduce as one call: small ones are copied into a buffer before it, and
// back after it.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/nccl/works.h"
#include "device/kernels.h"

namespace hvd::backend::nccl {

// A larger tensor is given to the library where it is. Copying it would take longer than a call of
// its own.
inline constexpr size_t kSmallTensor = size_t{1} << 20;
inline constexpr size_t kFusionBytes = size_t{32} << 20;

// Where tensors, and shares, begin in a buffer: kernels move 16 bytes at a time.
inline constexpr size_t kAlignment = 16;
inline size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// kFusionBytes of a device.
class FusionBuffer {
 public:
  static Result<std::unique_ptr<FusionBuffer>> allocate(device::Device& device);
  ~FusionBuffer() { device_.free(memory_); }
  FusionBuffer(const FusionBuffer&) = delete;
  FusionBuffer& operator=(const FusionBuffer&) = delete;
  std::byte* memory() const { return static_cast<std::byte*>(memory_); }

 private:
  FusionBuffer(device::Device& device, void* memory) : device_(device), memory_(memory) {}
  device::Device& device_;
  void* const memory_;
};

// The plan for the tensors of one allreduce, or for as many of them as the buffer holds; the same
// on all members.
class Fusion {
 public:
  // Plans for the items from `first` on. `buffer` has kFusionBytes; with nullptr no item is copied.
  void plan(const Work& work, const Scaling& scaling, size_t first, std::byte* buffer);
  size_t next() const { return next_; }  // the first item that is not in it

  // In this order: the copies, or with Scaling::before the products, then the items' allreduce,
  // then what comes back.
  const std::vector<device::Kernels::Segment>& into() const { return into_; }
  const std::vector<Item>& items() const { return items_; }
  const std::vector<device::Kernels::Segment>& back() const { return back_; }

 private:
  void add_large(const Item& item, size_t bytes, const Scaling& scaling);

  size_t next_ = 0;
  std::vector<device::Kernels::Segment> into_;
  std::vector<Item> items_;
  std::vector<device::Kernels::Segment> back_;
};

}  // namespace hvd::backend::nccl
