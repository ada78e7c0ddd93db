// SPDX-License-Identifier: Apache-2.0
// Our kernels on one device: batched copies, products with one factor, and Adasum's steps.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"
#include "device/cuda/table.h"
#include "device/device.h"

namespace hvd::device {

class Kernels {
 public:
  // `from`: "auto" for those that nvcc has compiled into this library, "none", or a file of them.
  // kUnsupported, with why, if there are none, or none that run on this device. Waits for the
  // device.
  static Result<std::unique_ptr<Kernels>> load(const Device& device, const std::string& from);
  // Not before what has been queued is done.
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  struct Segment {
    const void* from = nullptr;
    void* to = nullptr;  // may be `from`, must not overlap it otherwise
    size_t bytes = 0;
  };
  // Each queues kernels that go through all segments. Memory of the device, or page-locked memory
  // of the host, aligned to the elements.
  Status copy(StreamHandle stream, std::span<const Segment> segments) const;
  // By the rules of kernels/reduce.h.
  Status scale(StreamHandle stream, DType dtype, std::span<const Segment> segments,
               double factor) const;
  // Whether there are kernels for its elements.
  static bool scales(DType dtype);

  // In the order of cuda/adasum.h; `dtype` counts for products and for sums with weights.
  enum class AdasumStep { kClearProducts, kMultiply, kAddThreads, kAddChunks, kWeigh, kCombine };
  Status adasum(StreamHandle stream, AdasumStep step, DType dtype, cuda::AdasumTable table) const;

 private:
  explicit Kernels(const Device& device) : device_(device) {}
  Status read(const std::string& from);
  Status find_functions(const void* image);
  Status apply(StreamHandle stream, int kernel, std::span<const Segment> segments,
               double factor) const;
  Status launch(StreamHandle stream, int kernel, unsigned blocks, void* table) const;
  const DriverCalls& calls() const { return device_.driver().calls(); }
  Status check(int error, const char* what) const { return device_.driver().check(error, what); }

  static constexpr int kKernels = 0
#define HVD_KERNEL(name, Arguments, body) +1
#include "device/cuda/kernels.def"
#undef HVD_KERNEL
      ;
  const Device& device_;
  ModuleHandle module_ = nullptr;
  FunctionHandle functions_[kKernels] = {};
};

}  // namespace hvd::device
