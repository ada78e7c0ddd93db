// SPDX-License-Identifier: Apache-2.0
// A device as a program has it that uses our kernels: its memory, one stream, times and graphs. By
// the driver's calls alone, so it is the same on a GPU, in the benchmarks, and on the stand-in, in
// the tests. What fails is an exception.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

struct CUgraph_st;
struct CUgraphExec_st;

namespace hvd::gpu {

using device::Address;
using device::EventHandle;
using device::StreamHandle;
using GraphHandle = CUgraph_st*;
using LaunchableHandle = CUgraphExec_st*;
using Bytes = std::vector<unsigned char>;

struct Calls {
#define HVD_GPU_CALL(member, symbol, arguments) int(*member) arguments = nullptr;
#include "gpu.def"
#undef HVD_GPU_CALL
};

inline constexpr int kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2;

class Gpu {
 public:
  // The first device. kUnsupported, with why, where there is none.
  static Result<std::unique_ptr<Gpu>> open();
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const device::Device& device() const { return *device_; }
  StreamHandle stream() const { return stream_; }
  std::string name() const;

  // Memory of the device, until release() or the end.
  unsigned char* memory(size_t bytes);
  unsigned char* memory(const Bytes& contents);
  void release();
  // In the stream's order; both wait for it.
  void write(unsigned char* to, const Bytes& contents);
  Bytes read(const unsigned char* from, size_t bytes);
  void synchronize() const;

  // Queues a copy from the device to itself, as the driver makes it.
  void copy(void* to, const void* from, size_t bytes) const;
  // From the stream's reaching the place before what `queue` queues to that behind it. Waits.
  double milliseconds(const std::function<void()>& queue) const;

 private:
  friend class Graph;
  Gpu() = default;
  Status start();
  Status find_symbols();
  void check(int error, const char* what) const;
  const device::DriverCalls& driver() const { return device_->driver().calls(); }

  std::unique_ptr<device::Device> device_;
  Calls calls_;
  StreamHandle stream_ = nullptr;
  EventHandle start_ = nullptr;
  EventHandle end_ = nullptr;
  std::vector<void*> memories_;
};

// What `queue` queues on the stream, captured in that mode and launched as often as wanted.
class Graph {
 public:
  Graph(const Gpu& gpu, int mode, const std::function<void()>& queue);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch() const;

 private:
  const Gpu& gpu_;
  LaunchableHandle launchable_ = nullptr;
};

// An exception with what the status says, unless it is ok.
void must(const Status& status);

}  // namespace hvd::gpu
