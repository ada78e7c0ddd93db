// SPDX-License-Identifier: Apache-2.0
// Tensors of a device that are packed into contiguous memory and unpacked again, and how long ways
// to do that take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/kernels.h"
#include "unit/device/gpu.h"

namespace bench {

// Elements of each tensor.
using Sizes = std::vector<size_t>;

// The parameters of ResNet-50, in its order.
Sizes resnet50();
// 600 from 300 to 90,000, each larger than the one before by the same factor.
Sizes small_tensors();

class Packing {
 public:
  Packing(hvd::gpu::Gpu& gpu, const hvd::device::Kernels& kernels, const Sizes& sizes,
          size_t element_bytes);
  size_t bytes() const { return bytes_; }
  // Where each tensor is, and its place in the contiguous memory.
  const std::vector<hvd::device::Kernels::Segment>& segments() const { return into_; }

  // Each queues.
  void pack() const;
  void unpack() const;
  void copy_each() const;  // packs by a copy of the driver for each tensor
  // as many bytes as there are, in one copy of the driver: what the machine can do
  void copy_all() const;

  // Packs and unpacks; what differs, or nothing.
  std::string check();

 private:
  hvd::gpu::Gpu& gpu_;
  const hvd::device::Kernels& kernels_;
  size_t bytes_ = 0;
  size_t spread_bytes_ = 0;  // of the memory in which the tensors are
  size_t packed_bytes_ = 0;
  unsigned char* spread_ = nullptr;
  unsigned char* packed_ = nullptr;
  std::vector<hvd::device::Kernels::Segment> into_;
  std::vector<hvd::device::Kernels::Segment> back_;
};

struct Plan {
  int passes = 10;  // queued at once, so that the device does not wait for the host between them
  int repeats = 100;
  int warm_up_ms = 300;  // of each way, until the device's clocks have risen
};

// Microseconds of one pass.
struct Times {
  double best = 0;
  double median = 0;
  double queueing = 0;  // of the host; median
};

// The ways in turns, so that what disturbs the machine disturbs all.
std::vector<Times> measure(const hvd::gpu::Gpu& gpu, const Plan& plan,
                           const std::vector<std::function<void()>>& ways);

}  // namespace bench
