// SPDX-License-Identifier: Apache-2.0
// Streams, what is queued on them, and what tests want to know of the stand-in.
#include "fake_cuda_world.h"

#include <algorithm>
#include <chrono>

#include "fake_cuda.h"
#include "fake_cuda_memory.h"

extern "C" {
int cuDevicePrimaryCtxRetain(CUctx_st** context, int device);
int cuCtxPushCurrent_v2(CUctx_st* context);
int cuCtxPopCurrent_v2(CUctx_st** context);
int cuStreamCreateWithPriority(CUstream_st** stream, unsigned flags, int priority);
}

void CUstream_st::run() {
  using fake_cuda::changed;
  std::unique_lock<std::mutex> lock(fake_cuda::mutex);
  for (;;) {
    changed.wait(lock, [this] { return !work.empty(); });
    const fake_cuda::Work next = std::move(work.front());
    next(lock);
    work.pop_front();  // only now: what is under way counts as queued
    changed.notify_all();
  }
}

namespace fake_cuda {

std::mutex& mutex = *new std::mutex();
std::condition_variable& changed = *new std::condition_variable();
thread_local std::vector<CUctx_st*> current;
thread_local int capture_mode = 0;

World& world() {
  static auto* const one = new World();
  return *one;
}

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

int forbidden(const std::string& symbol) {
  const auto disturbed = [](const auto& stream_and_capture) {
    const Capture& capture = stream_and_capture.second;
    if (capture.mode == kRelaxed || capture_mode == kRelaxed) return false;
    return capture.by == std::this_thread::get_id() ||
           (capture.mode == kGlobal && capture_mode == kGlobal);
  };
  if (std::none_of(world().capturing.begin(), world().capturing.end(), disturbed)) return 0;
  world().faults.insert(symbol + " while a graph is captured");
  return kCaptureUnsupported;
}

int not_captured(const std::string& symbol, CUstream_st* stream) {
  const auto found = world().capturing.find(stream);
  if (found == world().capturing.end() || found->second.graph == nullptr) return 0;
  world().faults.insert(symbol + " of a stream that captures");
  return kCaptureUnsupported;
}

int failure_of(const std::string& symbol) {
  const auto found = world().failing.find(symbol);
  if (found == world().failing.end()) return 0;
  return found->second.first-- > 0 ? 0 : found->second.second;
}

int enter(const std::string& symbol, const std::string& details, bool needs_context) {
  world().calls.push_back(details.empty() ? symbol : symbol + " " + details);
  if (needs_context && current.empty()) {
    world().faults.insert(symbol + " without a context");
    return kInvalidContext;
  }
  return failure_of(symbol);
}

void put(CUstream_st* stream, Work work) {
  const auto capture = world().capturing.find(stream);
  if (capture != world().capturing.end() && capture->second.graph != nullptr)
    return note(capture->second.graph, std::move(work));
  stream->work.push_back(std::move(work));
  changed.notify_all();
}

bool all_idle() {
  return std::all_of(world().names.begin(), world().names.end(),
                     [](const auto& named) { return named.first->work.empty(); });
}

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
    world().capturing[stream] = {kGlobal, std::this_thread::get_id(), nullptr};
  } else {
    world().capturing.erase(stream);
  }
}

size_t allocations(int device) { return memories_of(device); }

int modules() {
  const Lock lock(mutex);
  return world().modules;
}

int graphs() {
  const Lock lock(mutex);
  return world().graphs;
}

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
