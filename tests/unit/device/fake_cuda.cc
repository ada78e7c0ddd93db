// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's interface that the engine uses, on threads instead of devices.
#include "fake_cuda.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "fake_cuda_memory.h"

using Address = unsigned long long;

namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidContext = 201, kNotReady = 600,
              kCaptureUnsupported = 900, kRelaxed = 2;

// Guards events, streams' queues and everything below.
std::mutex& mutex = *new std::mutex();  // never destroyed, as the streams' threads end with the process
std::condition_variable& changed = *new std::condition_variable();

}  // namespace

struct CUctx_st {
  int device;
};

struct CUevent_st {
  uint64_t recorded = 0;       // the latest time
  std::set<uint64_t> pending;  // times that are not reached yet
};

struct CUstream_st {
  explicit CUstream_st(std::string name_) : name(std::move(name_)), thread([this] { run(); }) { thread.detach(); }

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return !work.empty(); });
      const std::function<void(std::unique_lock<std::mutex>&)> next = std::move(work.front());
      next(lock);
      work.pop_front();  // only now: what is under way counts as queued
      changed.notify_all();
    }
  }

  std::string name;
  std::deque<std::function<void(std::unique_lock<std::mutex>&)>> work;
  std::thread thread;
};

namespace {

// Never destroyed: the streams' threads end with the process.
struct World {
  int devices = 2;
  int version = 13000;
  std::map<int, CUctx_st*> contexts;
  std::map<int, CUstream_st*> default_streams;
  std::deque<CUevent_st> events;  // all that there ever were: work may name them
  int named = 0;
  std::map<CUstream_st*, std::string> names;
  std::map<std::string, std::pair<int, int>> failing;  // symbol: calls that are good yet, error
  std::vector<std::string> calls;
  std::set<std::string> faults;
  std::set<CUstream_st*> capturing;
};

World& world() {
  static auto* const one = new World();
  return *one;
}

thread_local std::vector<CUctx_st*> current;
thread_local int capture_mode = 0;  // global

CUstream_st* stream_of(CUstream_st* given) {
  if (given != nullptr) return given;
  CUstream_st*& stream = world().default_streams[current.back()->device];
  if (stream == nullptr) stream = new CUstream_st("default");
  return stream;
}

std::string known_as(CUstream_st* stream) {
  if (stream == nullptr) return "default";
  const auto found = world().names.find(stream);
  return found == world().names.end() ? "earlier" : found->second;
}

// A thread that has not stepped aside would spoil the graph that another one captures.
int forbidden(const std::string& symbol) {
  if (world().capturing.empty() || capture_mode == kRelaxed) return 0;
  world().faults.insert(symbol + " while a graph is captured");
  return kCaptureUnsupported;
}

int failure_of(const std::string& symbol) {
  const auto found = world().failing.find(symbol);
  if (found == world().failing.end()) return 0;
  return found->second.first-- > 0 ? 0 : found->second.second;
}

// Notes the call; what it returns at once if that is not 0.
int enter(const std::string& symbol, const std::string& details = "", bool needs_context = true) {
  world().calls.push_back(details.empty() ? symbol : symbol + " " + details);
  if (needs_context && current.empty()) {
    world().faults.insert(symbol + " without a context");
    return kInvalidContext;
  }
  return failure_of(symbol);
}

void put(CUstream_st* stream, std::function<void(std::unique_lock<std::mutex>&)> work) {
  stream->work.push_back(std::move(work));
  changed.notify_all();
}

using Lock = std::lock_guard<std::mutex>;

bool all_idle() {
  return std::all_of(world().names.begin(), world().names.end(), [](const auto& named) { return named.first->work.empty(); });
}

int copy(const char* symbol, const void* device, const void* host, size_t bytes, CUstream_st* stream, bool to_host) {
  const Lock lock(mutex);
  if (const int error = enter(symbol, known_as(stream)); error != 0) return error;
  if (fake_cuda::find_memory(device, bytes) == nullptr) return kInvalidValue;
  put(stream_of(stream), [=](std::unique_lock<std::mutex>& held) {
    std::byte* there = fake_cuda::find_memory(device, bytes);
    if (there == nullptr || !fake_cuda::is_locked(host, bytes)) {
      world().faults.insert(std::string(symbol) +
                            (there == nullptr ? " of freed memory" : " with host memory that is not locked"));
      return;
    }
    held.unlock();
    to_host ? std::memcpy(const_cast<void*>(host), there, bytes) : std::memcpy(there, host, bytes);
    held.lock();
  });
  return 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  const Lock lock(mutex);
  return enter("cuInit", "", false);
}

int cuDriverGetVersion(int* version) {
  const Lock lock(mutex);
  *version = world().version;
  return enter("cuDriverGetVersion", "", false);
}

int cuGetErrorName(int error, const char** name) {
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
  return 0;
}

int cuGetErrorString(int error, const char** text) {
  *text = error == kOutOfMemory ? "out of memory" : "an error of the stand-in";
  return 0;
}

int cuDeviceGetCount(int* count) {
  const Lock lock(mutex);
  const int error = enter("cuDeviceGetCount", "", false);
  if (error == 0) *count = world().devices;
  return error;
}

int cuDeviceGetUuid(void* uuid, int device) {
  const Lock lock(mutex);
  const int error = enter("cuDeviceGetUuid", "", false);
  if (error == 0) std::memset(uuid, device + 1, 16);
  return error;
}

int cuDevicePrimaryCtxRetain(CUctx_st** context, int device) {
  const Lock lock(mutex);
  if (const int error = enter("cuDevicePrimaryCtxRetain", "", false); error != 0) return error;
  if (device < 0 || device >= world().devices) return kInvalidDevice;
  CUctx_st*& one = world().contexts[device];
  if (one == nullptr) one = new CUctx_st{device};
  *context = one;
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  const Lock lock(mutex);
  return enter("cuDevicePrimaryCtxRelease", "", false);
}

int cuCtxPushCurrent_v2(CUctx_st* context) {
  current.push_back(context);
  return 0;
}

int cuCtxPopCurrent_v2(CUctx_st** context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return 0;
}

int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return current.empty() ? kInvalidContext : 0;
}

int cuStreamCreateWithPriority(CUstream_st** stream, unsigned, int) {
  const Lock lock(mutex);
  const std::string name = "stream" + std::to_string(world().named++);
  if (const int error = enter("cuStreamCreateWithPriority", name); error != 0) return error;
  *stream = new CUstream_st(name);
  world().names[*stream] = name;
  return 0;
}

int cuStreamDestroy_v2(CUstream_st* stream) {
  const Lock lock(mutex);
  return enter("cuStreamDestroy", known_as(stream));
}

int cuStreamQuery(CUstream_st* stream) {
  const Lock lock(mutex);
  return stream_of(stream)->work.empty() ? 0 : kNotReady;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(capture_mode, *mode);
  return 0;
}

int cuStreamIsCapturing(CUstream_st* stream, int* capturing) {
  const Lock lock(mutex);
  *capturing = stream != nullptr && world().capturing.count(stream) != 0 ? 1 : 0;
  return 0;
}

int cuStreamWaitEvent(CUstream_st* stream, CUevent_st* event, unsigned) {
  const Lock lock(mutex);
  if (const int error = enter("cuStreamWaitEvent", known_as(stream)); error != 0) return error;
  put(stream_of(stream), [event, moment = event->recorded](std::unique_lock<std::mutex>& held) {
    changed.wait(held, [=] { return event->pending.count(moment) == 0; });
  });
  return 0;
}

int cuEventCreate(CUevent_st** event, unsigned) {
  const Lock lock(mutex);
  if (const int error = enter("cuEventCreate"); error != 0) return error;
  *event = &world().events.emplace_back();
  return 0;
}

int cuEventDestroy_v2(CUevent_st*) {  // as in the driver, work that names the event goes on
  const Lock lock(mutex);
  return enter("cuEventDestroy");
}

int cuEventRecord(CUevent_st* event, CUstream_st* stream) {
  const Lock lock(mutex);
  if (const int error = enter("cuEventRecord", known_as(stream)); error != 0) return error;
  event->pending.insert(++event->recorded);
  put(stream_of(stream), [event, moment = event->recorded](std::unique_lock<std::mutex>&) { event->pending.erase(moment); });
  return 0;
}

int cuEventQuery(CUevent_st* event) {
  const Lock lock(mutex);
  if (const int error = forbidden("cuEventQuery"); error != 0) return error;
  if (const int error = failure_of("cuEventQuery"); error != 0) return error;
  return event->pending.count(event->recorded) == 0 ? 0 : kNotReady;
}

int cuLaunchHostFunc(CUstream_st* stream, void (*function)(void*), void* argument) {
  const Lock lock(mutex);
  if (const int error = enter("cuLaunchHostFunc", known_as(stream)); error != 0) return error;
  put(stream_of(stream), [=](std::unique_lock<std::mutex>& held) {
    held.unlock();
    function(argument);
    held.lock();
  });
  return 0;
}

int cuMemAlloc_v2(Address* memory, size_t bytes) {
  const Lock lock(mutex);
  if (const int error = forbidden("cuMemAlloc"); error != 0) return error;
  if (const int error = enter("cuMemAlloc"); error != 0) return error;
  *memory = reinterpret_cast<uintptr_t>(fake_cuda::allocate_memory(current.back()->device, bytes));
  return 0;
}

int cuMemFree_v2(Address memory) {
  std::unique_lock<std::mutex> lock(mutex);
  if (const int error = forbidden("cuMemFree"); error != 0) return error;
  if (const int error = enter("cuMemFree"); error != 0) return error;
  changed.wait(lock, all_idle);  // for the device, as the driver does
  return fake_cuda::free_memory(reinterpret_cast<void*>(memory)) ? 0 : kInvalidValue;
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  const Lock lock(mutex);
  if (const int error = forbidden("cuMemHostAlloc"); error != 0) return error;
  if (const int error = enter("cuMemHostAlloc"); error != 0) return error;
  *memory = fake_cuda::allocate_locked(bytes);
  return 0;
}

int cuMemFreeHost(void* memory) {
  const Lock lock(mutex);
  if (const int error = enter("cuMemFreeHost"); error != 0) return error;
  return fake_cuda::free_locked(memory) ? 0 : kInvalidValue;
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, CUstream_st* stream) {
  return copy("cuMemcpyDtoHAsync", reinterpret_cast<void*>(from), to, bytes, stream, true);
}

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, CUstream_st* stream) {
  return copy("cuMemcpyHtoDAsync", reinterpret_cast<void*>(to), from, bytes, stream, false);
}

int cuPointerGetAttribute(void* value, int attribute, Address memory) {
  const int device = fake_cuda::device_of(reinterpret_cast<void*>(memory));
  if (device < 0) return kInvalidValue;
  const int answer = attribute == 2 ? 2 : device;
  std::memcpy(value, &answer, sizeof answer);
  return 0;
}

}  // extern "C"

namespace fake_cuda {

Stream make_stream(int device) {
  CUctx_st* context = nullptr;
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxPushCurrent_v2(context);
  CUstream_st* stream = nullptr;
  cuStreamCreateWithPriority(&stream, 0, 0);
  cuCtxPopCurrent_v2(&context);
  return stream;
}

void* allocate(int device, size_t bytes) { return allocate_memory(device, bytes); }
void free(void* memory) { free_memory(memory); }

void launch(Stream stream, unsigned microseconds, std::function<void()> body) {
  const Lock lock(mutex);
  put(stream, [=](std::unique_lock<std::mutex>& held) {
    held.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    body();
    held.lock();
  });
}

void synchronize(Stream stream) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [=] { return stream->work.empty(); });
}

void synchronize_all() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, all_idle);
}

void* shadow(const void* memory) { return find_memory(memory, 0); }

void fail(const std::string& symbol, int error, int good) {
  const Lock lock(mutex);
  world().failing.erase(symbol);
  if (error != 0) world().failing[symbol] = {good, error};
}

void set_devices(int count) {
  const Lock lock(mutex);
  world().devices = count;
}

void set_version(int version) {
  const Lock lock(mutex);
  world().version = version;
}

void capture(Stream stream, bool on) {
  const Lock lock(mutex);
  if (on) {
    world().capturing.insert(stream);
  } else {
    world().capturing.erase(stream);
  }
}

size_t allocations(int device) { return memories_of(device); }

int current_device() { return current.empty() ? -1 : current.back()->device; }

std::string name_of(Stream stream) {
  const Lock lock(mutex);
  return known_as(stream);
}

std::vector<std::string> take_calls() {
  const Lock lock(mutex);
  return std::exchange(world().calls, {});
}

std::vector<std::string> faults() {
  const Lock lock(mutex);
  return {world().faults.begin(), world().faults.end()};
}

}  // namespace fake_cuda
