// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "base/clock.h"

namespace hvd::device {

namespace {

// Sizes are rounded, so that operations of similar size share what is kept: to powers of two, large
// ones to this.
constexpr size_t kLeastHostMemory = 4096;
constexpr size_t kLargeHostMemory = size_t{1} << 20;
constexpr Duration kPatience = std::chrono::seconds(1);

size_t rounded(size_t bytes) {
  if (bytes > kLargeHostMemory)
    return (bytes + kLargeHostMemory - 1) / kLargeHostMemory * kLargeHostMemory;
  return std::bit_ceil(std::max(bytes, kLeastHostMemory));
}

Address address(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

struct Ring {
  std::shared_ptr<const Bell> bell;
};

void ring(void* argument) {
  const std::unique_ptr<Ring> once(static_cast<Ring*>(argument));
  once->bell->ring();
}

}  // namespace

void Bell::ring() const {
  MutexLock lock(mutex_);
  if (ring_) ring_();
}

void Bell::close() {
  MutexLock lock(mutex_);
  ring_ = nullptr;
}

Moment& Moment::operator=(Moment&& other) noexcept {
  if (of_ != nullptr) of_->give_event(event_);
  of_ = std::exchange(other.of_, nullptr);
  event_ = other.event_;
  return *this;
}

Moment::~Moment() {
  if (of_ != nullptr) of_->give_event(event_);
}

Device::Scope::Scope(const Device& device)
    : device_(device), pushed_(device.calls().push_context(device.context_) == 0) {
  device_.calls().exchange_capture_mode(&capture_mode_);
}

Device::Scope::~Scope() {
  device_.calls().exchange_capture_mode(&capture_mode_);
  ContextHandle popped = nullptr;
  if (pushed_) device_.calls().pop_context(&popped);
}

Device::Device(std::shared_ptr<const Driver> driver, int id, std::shared_ptr<const Bell> bell)
    : driver_(std::move(driver)), id_(id), bell_(std::move(bell)) {}

Result<std::unique_ptr<Device>> Device::open(std::shared_ptr<const Driver> driver, int id,
                                             std::shared_ptr<const Bell> bell) {
  if (id < 0 || id >= driver->device_count()) {
    return Status(Code::kInvalidArgument, "device id is " + std::to_string(id) +
                                              "; this process sees CUDA devices 0 to " +
                                              std::to_string(driver->device_count() - 1));
  }
  std::unique_ptr<Device> device(new Device(std::move(driver), id, std::move(bell)));
  HVD_TRY(device->start());
  return device;
}

Status Device::start() {
  HVD_TRY(driver_->check(calls().retain_context(&context_, id_), "cuDevicePrimaryCtxRetain"));
  for (StreamHandle& stream : streams_) {
    const Result<StreamHandle> made = make_stream();
    if (!made.ok()) return made.status();
    stream = made.value();
  }
  return {};
}

Result<DeviceUuid> Device::uuid() const {
  DeviceUuid uuid{};
  HVD_TRY(driver_->check(calls().uuid(uuid.data(), id_), "cuDeviceGetUuid"));
  return uuid;
}

Result<StreamHandle> Device::make_stream() const {
  const Scope scope(*this);
  int least = 0;
  int greatest = 0;
  HVD_TRY(driver_->check(calls().priorities(&least, &greatest), "cuCtxGetStreamPriorityRange"));
  StreamHandle stream = nullptr;
  HVD_TRY(driver_->check(calls().create_stream(&stream, kNonBlockingStream, greatest),
                         "cuStreamCreateWithPriority"));
  return stream;
}

void Device::destroy_stream(StreamHandle stream) const {
  const Scope scope(*this);
  calls().destroy_stream(stream);
}

bool Device::idle(StreamHandle stream) const {
  const Scope scope(*this);
  return calls().query_stream(stream) != kNotReady;
}

Device::~Device() {
  if (fork_guard_.forked() || context_ == nullptr) return;
  const Time limit = now() + kPatience;
  while (!idle() && now() < limit) std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (!idle()) {
    // Events go with the context; memory must stay, because the device may write there yet.
    lent_.clear();
    return;
  }
  collect();
  {
    const Scope scope(*this);
    free_unused(0);
    for (void* result : freed_results_) calls().free(address(result));
    for (EventHandle event : unused_events_) calls().destroy_event(event);
  }
  for (StreamHandle stream : streams_) {
    if (stream != nullptr) destroy_stream(stream);
  }
  calls().release_context(id_);
}

bool Device::idle() const {
  return std::all_of(std::begin(streams_), std::end(streams_),
                     [this](StreamHandle stream) { return stream == nullptr || idle(stream); });
}

Status Device::check_memory(const void* memory) const {
  const Scope scope(*this);
  unsigned type = 0;
  int device = -1;
  const int error = calls().pointer_attribute(&type, kAttributeMemoryType, address(memory));
  if (error == kInvalidValue || (error == 0 && type == kMemoryOfHost)) {
    return Status(Code::kInvalidArgument,
                  "data is host memory; the tensor says CUDA device " + std::to_string(id_));
  }
  HVD_TRY(driver_->check(error, "cuPointerGetAttribute"));
  HVD_TRY(driver_->check(calls().pointer_attribute(&device, kAttributeDevice, address(memory)),
                         "cuPointerGetAttribute"));
  if (device == id_) return {};
  return Status(Code::kInvalidArgument, "data is memory of CUDA device " + std::to_string(device) +
                                            "; the tensor says CUDA device " + std::to_string(id_));
}

Status Device::check_stream(StreamHandle stream) const {
  const Scope scope(*this);
  int capturing = 0;
  HVD_TRY(driver_->check(calls().is_capturing(stream, &capturing), "cuStreamIsCapturing"));
  if (capturing == 0) return {};
  return Status(Code::kInvalidArgument,
                "the stream is capturing a graph; operations can not be part of one");
}

Result<Moment> Device::mark(StreamHandle stream) {
  if (fork_guard_.forked())
    return Status(Code::kInvalidState, "the CUDA device belongs to the parent of this process");
  const Scope scope(*this);
  EventHandle event = nullptr;
  {
    MutexLock lock(event_mutex_);
    if (!unused_events_.empty()) {
      event = unused_events_.back();
      unused_events_.pop_back();
    }
  }
  if (event == nullptr)
    HVD_TRY(driver_->check(calls().create_event(&event, kEventWithoutTiming), "cuEventCreate"));
  Moment moment(this, event);
  HVD_TRY(driver_->check(calls().record_event(event, stream), "cuEventRecord"));
  return moment;
}

Result<bool> Device::reached(const Moment& moment) const {
  const Scope scope(*this);
  const int error = calls().query_event(moment.event());
  if (error == kNotReady) return false;
  HVD_TRY(driver_->check(error, "cuEventQuery"));
  return true;
}

Status Device::wait(StreamHandle stream, const Moment& moment) const {
  const Scope scope(*this);
  return driver_->check(calls().wait_event(stream, moment.event(), 0), "cuStreamWaitEvent");
}

Status Device::copy(Way way, void* to, const void* from, size_t bytes) {
  const Scope scope(*this);
  const StreamHandle stream = stream_of(way);
  if (way == Way::kToHost)
    return driver_->check(calls().copy_to_host(to, address(from), bytes, stream),
                          "cuMemcpyDtoHAsync");
  return driver_->check(calls().copy_to_device(address(to), from, bytes, stream),
                        "cuMemcpyHtoDAsync");
}

Status Device::copy(StreamHandle stream, void* to, const void* from, size_t bytes) const {
  const Scope scope(*this);
  return driver_->check(calls().copy(address(to), address(from), bytes, stream), "cuMemcpyAsync");
}

Result<Moment> Device::mark(Way way, bool rings) {
  Result<Moment> moment = mark(stream_of(way));
  if (!moment.ok() || !rings) return moment;
  const Scope scope(*this);
  auto once = std::make_unique<Ring>(Ring{bell_});
  HVD_TRY(driver_->check(calls().call_host(stream_of(way), ring, once.get()), "cuLaunchHostFunc"));
  once.release();
  return moment;
}

Result<Device::HostMemory> Device::take_host_memory(size_t bytes) {
  MutexLock lock(mutex_);
  collect();
  const size_t size = rounded(bytes);
  Result<HostMemory> memory = find_unused(size);
  if (!memory.ok()) memory = allocate_host(size);
  if (memory.ok()) {
    used_bytes_ += memory.value().bytes;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  }
  return memory;
}

// Kept memory of that size, or up to twice as much.
Result<Device::HostMemory> Device::find_unused(size_t size) {
  for (auto kept = unused_memory_.lower_bound(size);
       kept != unused_memory_.end() && kept->first <= 2 * size; ++kept) {
    if (kept->second.empty()) continue;
    void* memory = kept->second.back();
    kept->second.pop_back();
    unused_bytes_ -= kept->first;
    return HostMemory{memory, kept->first};
  }
  return Status(Code::kOutOfMemory, "none is kept");
}

// Sizes that come once only must not pile up: beside the new one no more is kept than has ever been
// in use at once.
Result<Device::HostMemory> Device::allocate_host(size_t size) {
  const Scope scope(*this);
  free_unused(std::max(most_used_bytes_, used_bytes_ + size));
  void* memory = nullptr;
  int error = calls().allocate_host(&memory, size, kPortableHostMemory);
  if (error != 0 && unused_bytes_ > 0) {
    free_unused(0);
    error = calls().allocate_host(&memory, size, kPortableHostMemory);
  }
  HVD_TRY(driver_->check(error, "cuMemHostAlloc"));
  return HostMemory{memory, size};
}

void Device::free_unused(size_t but_for) {
  for (auto& [bytes, kept] : unused_memory_) {
    while (unused_bytes_ > but_for && !kept.empty()) {
      calls().free_host(kept.back());
      kept.pop_back();
      unused_bytes_ -= bytes;
    }
  }
}

void Device::give_host_memory(std::vector<HostMemory> memory, Moment until) {
  if (fork_guard_.forked()) return;
  MutexLock lock(mutex_);
  lent_.push_back({std::move(memory), std::move(until)});
}

// Copies end in the order of their moments on a stream. Copies of the two ways may overtake each
// other, which costs some memory.
void Device::collect() {
  while (!lent_.empty()) {
    Lent& oldest = lent_.front();
    const Result<bool> free = oldest.until ? reached(oldest.until) : Result<bool>(true);
    if (!free.ok() || !free.value()) return;
    for (const HostMemory& one : oldest.memory) {
      unused_memory_[one.bytes].push_back(one.memory);
      unused_bytes_ += one.bytes;
      used_bytes_ -= one.bytes;
    }
    lent_.pop_front();
  }
}

Result<void*> Device::allocate(size_t bytes) {
  const Scope scope(*this);
  Address memory = 0;
  HVD_TRY(driver_->check(calls().allocate(&memory, std::max<size_t>(bytes, 1)), "cuMemAlloc"));
  return reinterpret_cast<void*>(static_cast<uintptr_t>(memory));
}

void Device::free(void* memory) {
  if (fork_guard_.forked()) return;
  MutexLock lock(mutex_);
  freed_results_.push_back(memory);
}

void Device::free_results() {
  if (fork_guard_.forked()) return;
  std::vector<void*> results;
  {
    MutexLock lock(mutex_);
    results.swap(freed_results_);
  }
  if (results.empty()) return;
  const Scope scope(*this);
  for (void* result : results) calls().free(address(result));
}

void Device::give_event(EventHandle event) {
  if (fork_guard_.forked()) return;
  MutexLock lock(event_mutex_);
  unused_events_.push_back(event);
}

}  // namespace hvd::device
