// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace hvd::gpu {

using Scope = device::Device::Scope;

namespace {

// of page-locked memory, for what is written and read
constexpr size_t kBufferBytes = size_t{16} << 20;
constexpr unsigned kEventWithTiming = 0;

Address address(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

}  // namespace

void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

Result<std::unique_ptr<Gpu>> Gpu::open() {
  Result<std::shared_ptr<const device::Driver>> driver = device::Driver::open();
  if (!driver.ok()) return driver.status();
  Result<std::unique_ptr<device::Device>> device =
      device::Device::open(driver.value(), 0, std::make_shared<device::Bell>([] {}));
  if (!device.ok()) return device.status();
  std::unique_ptr<Gpu> gpu(new Gpu());
  gpu->device_ = std::move(device).value();
  HVD_TRY(gpu->find_symbols());
  HVD_TRY(gpu->start());
  return gpu;
}

Status Gpu::find_symbols() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // loaded already
  const char* absent = nullptr;
#define HVD_GPU_CALL(member, symbol, arguments)                                 \
  calls_.member = reinterpret_cast<int(*) arguments>(::dlsym(library, symbol)); \
  if (calls_.member == nullptr) absent = symbol;
#include "gpu.def"
#undef HVD_GPU_CALL
  return absent == nullptr
             ? Status()
             : Status(Code::kUnsupported, std::string("the CUDA driver lacks ") + absent);
}

Status Gpu::start() {
  Result<StreamHandle> stream = device_->make_stream();
  if (!stream.ok()) return stream.status();
  stream_ = stream.value();
  const Scope scope(*device_);
  for (EventHandle* event : {&start_, &end_}) {
    HVD_TRY(
        device_->driver().check(driver().create_event(event, kEventWithTiming), "cuEventCreate"));
  }
  return {};
}

Gpu::~Gpu() {
  {
    const Scope scope(*device_);
    for (const EventHandle event : {start_, end_}) {
      if (event != nullptr) driver().destroy_event(event);
    }
  }
  if (stream_ != nullptr) device_->destroy_stream(stream_);
  release();
}

void Gpu::check(int error, const char* what) const { must(device_->driver().check(error, what)); }

std::string Gpu::name() const {
  char text[256] = {};
  check(calls_.device_name(text, sizeof text - 1, device_->id()), "cuDeviceGetName");
  return text;
}

unsigned char* Gpu::memory(size_t bytes) {
  const Result<void*> memory = device_->allocate(bytes);
  must(memory.status());
  memories_.push_back(memory.value());
  return static_cast<unsigned char*>(memory.value());
}

unsigned char* Gpu::memory(const Bytes& contents) {
  unsigned char* made = memory(contents.size());
  write(made, contents);
  return made;
}

void Gpu::release() {
  for (void* memory : memories_) device_->free(memory);
  memories_.clear();
  device_->free_results();
}

void Gpu::write(unsigned char* to, const Bytes& contents) {
  const Result<device::Device::HostMemory> buffer =
      device_->take_host_memory(std::min(contents.size(), kBufferBytes));
  must(buffer.status());
  for (size_t at = 0; at < contents.size(); at += kBufferBytes) {
    const size_t bytes = std::min(kBufferBytes, contents.size() - at);
    std::memcpy(buffer.value().memory, contents.data() + at, bytes);
    const Scope scope(*device_);
    check(driver().copy_to_device(address(to + at), buffer.value().memory, bytes, stream_),
          "cuMemcpyHtoDAsync");
    synchronize();
  }
  device_->give_host_memory({buffer.value()}, {});
}

Bytes Gpu::read(const unsigned char* from, size_t bytes) {
  const Result<device::Device::HostMemory> buffer =
      device_->take_host_memory(std::min(bytes, kBufferBytes));
  must(buffer.status());
  Bytes contents(bytes);
  for (size_t at = 0; at < bytes; at += kBufferBytes) {
    const size_t some = std::min(kBufferBytes, bytes - at);
    const Scope scope(*device_);
    check(driver().copy_to_host(buffer.value().memory, address(from + at), some, stream_),
          "cuMemcpyDtoHAsync");
    synchronize();
    std::memcpy(contents.data() + at, buffer.value().memory, some);
  }
  device_->give_host_memory({buffer.value()}, {});
  return contents;
}

void Gpu::synchronize() const {
  const Scope scope(*device_);
  check(calls_.synchronize(stream_), "cuStreamSynchronize");
}

void Gpu::copy(void* to, const void* from, size_t bytes) const {
  const Scope scope(*device_);
  check(calls_.copy_on_device(address(to), address(from), bytes, stream_), "cuMemcpyDtoDAsync");
}

double Gpu::milliseconds(const std::function<void()>& queue) const {
  const Scope scope(*device_);
  check(driver().record_event(start_, stream_), "cuEventRecord");
  queue();
  check(driver().record_event(end_, stream_), "cuEventRecord");
  check(calls_.synchronize_event(end_), "cuEventSynchronize");
  float elapsed = 0;
  check(calls_.elapsed(&elapsed, start_, end_), "cuEventElapsedTime");
  return static_cast<double>(elapsed);
}

// Without a Scope around `queue`: it would allow the calls that a capture forbids, and hide ours.
Graph::Graph(const Gpu& gpu, int mode, const std::function<void()>& queue) : gpu_(gpu) {
  const auto in_context = [&gpu](const auto& call) {
    const Scope scope(gpu.device());
    return call();
  };
  GraphHandle graph = nullptr;
  const auto end = [&] {
    return in_context([&] { return gpu.calls_.end_capture(gpu.stream_, &graph); });
  };
  gpu.check(in_context([&] { return gpu.calls_.begin_capture(gpu.stream_, mode); }),
            "cuStreamBeginCapture");
  try {
    queue();
  } catch (...) {
    end();
    if (graph != nullptr) gpu.calls_.destroy_graph(graph);
    throw;
  }
  gpu.check(end(), "cuStreamEndCapture");
  const int error = in_context([&] { return gpu.calls_.instantiate(&launchable_, graph, 0); });
  in_context([&] { return gpu.calls_.destroy_graph(graph); });
  gpu.check(error, "cuGraphInstantiate");
}

Graph::~Graph() {
  const Scope scope(gpu_.device());
  gpu_.calls_.destroy_launchable(launchable_);
}

void Graph::launch() const {
  const Scope scope(gpu_.device());
  gpu_.check(gpu_.calls_.launch_graph(launchable_, gpu_.stream_), "cuGraphLaunch");
}

}  // namespace hvd::gpu
