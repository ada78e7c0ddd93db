// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's interface that the engine and the benchmarks use, on threads
// instead of devices.
#include "fake_cuda.h"

#include <cstring>

#include "fake_cuda_memory.h"
#include "fake_cuda_world.h"

using namespace fake_cuda;

namespace {

constexpr unsigned kWithoutTiming = 2;

int copy(const char* symbol, const void* device, const void* host, size_t bytes,
         CUstream_st* stream, bool to_host) {
  const Lock lock(mutex);
  if (const int error = enter(symbol, known_as(stream)); error != 0) return error;
  if (const int error = not_captured(symbol, stream); error != 0) return error;
  if (find_memory(device, bytes) == nullptr) return kInvalidValue;
  put(stream_of(stream), [=](std::unique_lock<std::mutex>& held) {
    std::byte* there = find_memory(device, bytes);
    if (there == nullptr || !is_locked(host, bytes)) {
      world().faults.insert(std::string(symbol) + (there == nullptr
                                                       ? " of freed memory"
                                                       : " with host memory that is not locked"));
      return;
    }
    held.unlock();
    to_host ? std::memcpy(const_cast<void*>(host), there, bytes) : std::memcpy(there, host, bytes);
    held.lock();
  });
  return 0;
}

// Where device memory, or page-locked memory of the host, is; nullptr if it is neither.
std::byte* find(void* memory, size_t bytes) {
  std::byte* const there = find_memory(memory, bytes);
  return there == nullptr && is_locked(memory, bytes) ? static_cast<std::byte*>(memory) : there;
}

// Of any such memory to any.
int copy(const char* symbol, Address to, Address from, size_t bytes, CUstream_st* stream) {
  const Lock lock(mutex);
  if (const int error = enter(symbol, known_as(stream)); error != 0) return error;
  auto* source = reinterpret_cast<void*>(from);
  auto* target = reinterpret_cast<void*>(to);
  if (find(source, bytes) == nullptr || find(target, bytes) == nullptr) return kInvalidValue;
  put(stream_of(stream), [=](std::unique_lock<std::mutex>& held) {
    const std::byte* in = find(source, bytes);
    std::byte* out = find(target, bytes);
    if (in == nullptr || out == nullptr) {
      world().faults.insert(std::string(symbol) + " of freed memory");
      return;
    }
    held.unlock();
    std::memmove(out, in, bytes);
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
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == 700        ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                : "CUDA_ERROR_OTHER";
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

int cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "stand-in", static_cast<size_t>(length));
  return 0;
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
  if (const int error = not_captured("cuStreamQuery", stream); error != 0) return error;
  return stream_of(stream)->work.empty() ? 0 : kNotReady;
}

int cuStreamSynchronize(CUstream_st* stream) {
  std::unique_lock<std::mutex> lock(mutex);
  if (const int error = enter("cuStreamSynchronize", known_as(stream)); error != 0) return error;
  if (const int error = not_captured("cuStreamSynchronize", stream); error != 0) return error;
  changed.wait(lock, [=, one = stream_of(stream)] { return one->work.empty(); });
  return 0;
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
  if (const int error = not_captured("cuStreamWaitEvent", stream); error != 0) return error;
  put(stream_of(stream), [event, moment = event->recorded](std::unique_lock<std::mutex>& held) {
    changed.wait(held, [=] { return event->pending.count(moment) == 0; });
  });
  return 0;
}

int cuEventCreate(CUevent_st** event, unsigned flags) {
  const Lock lock(mutex);
  if (const int error = enter("cuEventCreate"); error != 0) return error;
  *event = &world().events.emplace_back();
  (*event)->timed = (flags & kWithoutTiming) == 0;
  return 0;
}

int cuEventDestroy_v2(CUevent_st*) {  // as in the driver, work that names the event goes on
  const Lock lock(mutex);
  return enter("cuEventDestroy");
}

int cuEventRecord(CUevent_st* event, CUstream_st* stream) {
  const Lock lock(mutex);
  if (const int error = enter("cuEventRecord", known_as(stream)); error != 0) return error;
  if (const int error = not_captured("cuEventRecord", stream); error != 0) return error;
  event->pending.insert(++event->recorded);
  put(stream_of(stream), [event, moment = event->recorded](std::unique_lock<std::mutex>&) {
    event->reached = std::chrono::steady_clock::now();
    event->pending.erase(moment);
  });
  return 0;
}

int cuEventQuery(CUevent_st* event) {
  const Lock lock(mutex);
  if (const int error = forbidden("cuEventQuery"); error != 0) return error;
  if (const int error = failure_of("cuEventQuery"); error != 0) return error;
  return event->pending.count(event->recorded) == 0 ? 0 : kNotReady;
}

int cuEventSynchronize(CUevent_st* event) {
  std::unique_lock<std::mutex> lock(mutex);
  if (const int error = forbidden("cuEventSynchronize"); error != 0) return error;
  if (const int error = enter("cuEventSynchronize"); error != 0) return error;
  changed.wait(lock,
               [event, moment = event->recorded] { return event->pending.count(moment) == 0; });
  return 0;
}

int cuEventElapsedTime(float* milliseconds, CUevent_st* start, CUevent_st* end) {
  const Lock lock(mutex);
  if (!start->timed || !end->timed || start->recorded == 0 || end->recorded == 0)
    return kInvalidHandle;
  if (!start->pending.empty() || !end->pending.empty()) return kNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->reached - start->reached).count();
  return 0;
}

int cuLaunchHostFunc(CUstream_st* stream, void (*function)(void*), void* argument) {
  const Lock lock(mutex);
  if (const int error = enter("cuLaunchHostFunc", known_as(stream)); error != 0) return error;
  if (const int error = not_captured("cuLaunchHostFunc", stream); error != 0) return error;
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
  *memory = reinterpret_cast<uintptr_t>(allocate_memory(current.back()->device, bytes));
  return 0;
}

int cuMemFree_v2(Address memory) {
  std::unique_lock<std::mutex> lock(mutex);
  if (const int error = forbidden("cuMemFree"); error != 0) return error;
  if (const int error = enter("cuMemFree"); error != 0) return error;
  changed.wait(lock, all_idle);  // for the device, as the driver does
  return free_memory(reinterpret_cast<void*>(memory)) ? 0 : kInvalidValue;
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  const Lock lock(mutex);
  if (const int error = forbidden("cuMemHostAlloc"); error != 0) return error;
  if (const int error = enter("cuMemHostAlloc"); error != 0) return error;
  *memory = allocate_locked(bytes);
  return 0;
}

int cuMemFreeHost(void* memory) {
  const Lock lock(mutex);
  if (const int error = enter("cuMemFreeHost"); error != 0) return error;
  return free_locked(memory) ? 0 : kInvalidValue;
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, CUstream_st* stream) {
  return copy("cuMemcpyDtoHAsync", reinterpret_cast<void*>(from), to, bytes, stream, true);
}

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, CUstream_st* stream) {
  return copy("cuMemcpyHtoDAsync", reinterpret_cast<void*>(to), from, bytes, stream, false);
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, CUstream_st* stream) {
  return copy("cuMemcpyDtoDAsync", to, from, bytes, stream);
}

int cuMemcpyAsync(Address to, Address from, size_t bytes, CUstream_st* stream) {
  return copy("cuMemcpyAsync", to, from, bytes, stream);
}

int cuPointerGetAttribute(void* value, int attribute, Address memory) {
  const int device = device_of(reinterpret_cast<void*>(memory));
  if (device < 0) return kInvalidValue;
  const int answer = attribute == 2 ? 2 : device;
  std::memcpy(value, &answer, sizeof answer);
  return 0;
}

}  // extern "C"
