// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/comm.h"

#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/broadcast.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/gloo/device.h"

namespace hvd::backend::gloo {
namespace {

// Bytes per element of the types numbered as in hvd.h.
constexpr size_t kElementSizes[] = {1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2};

// Gloo's own file and line are of no use to a user.
std::string without_place(const std::string& what) {
  const size_t end = what.front() == '[' ? what.find("] ") : std::string::npos;
  return end == std::string::npos || what.substr(0, end).find(".cc:") == std::string::npos
             ? what
             : what.substr(end + 2);
}

std::string reason(const std::exception& error) {
  std::string what = error.what();
  if (what.empty()) return "no reason given";
  return without_place(what.substr(0, what.find('\n')));
}

const char* name_of(int32_t kind) {
  constexpr const char* kNames[] = {"allreduce", "allgatherv", "broadcast", "alltoallv"};
  return kNames[kind];
}

template <class T>
void set_reduction(::gloo::AllreduceOptions& options, const plugin::Request& request) {
  options.setInput(static_cast<T*>(const_cast<void*>(request.in)), request.count);
  options.setOutput(static_cast<T*>(request.out), request.count);
}

std::vector<int64_t> counts_of(const size_t* bytes, size_t members) {
  return {bytes, bytes + members};
}

}  // namespace

std::string Comm::open(const plugin::Settings& settings) {
  std::string problem;
  try {
    std::shared_ptr<::gloo::transport::Device> device = open_device(settings, &problem);
    if (!device) return problem;
    mesh_ = std::make_shared<Mesh>(group_.me, group_.size);
    mesh_->setTimeout(std::chrono::milliseconds(settings.timeout_ms));
    mesh_->connect(std::move(device), [this](const void* bytes, size_t size, void* all) {
      char text[512] = {};
      if (services_.exchange(services_.self, bytes, size, all, {text, sizeof text}) != 0)
        throw std::runtime_error(text);
    });
    thread_ = std::thread([this] { work(); });
  } catch (const std::exception& error) {
    return reason(error);
  }
  return {};
}

Comm::~Comm() {
  abort();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    news_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Comm::start(const plugin::Request& request) {
  state_ = kRunning;
  const std::lock_guard lock(mutex_);
  request_ = request;
  requested_ = true;
  news_.notify_one();
}

int32_t Comm::poll(std::string* problem) const {
  switch (state_.load(std::memory_order_acquire)) {
    case kRunning: return 1;
    case kFailed: *problem = problem_; return -1;
    default: return 0;
  }
}

void Comm::abort() {
  if (state_ != kRunning) return;
  mesh_->abort();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    news_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Comm::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    news_.wait(lock, [this] { return ending_ || requested_; });
    if (ending_) return;
    requested_ = false;
    const plugin::Request request = request_;
    lock.unlock();
    State end = kDone;
    try {
      run(request);
    } catch (const std::exception& error) {
      problem_ = std::string(name_of(request.kind)) + " in group " + std::to_string(group_.id) +
                 " of " + std::to_string(group_.size) + " members: " + reason(error);
      end = kFailed;
    }
    state_.store(end, std::memory_order_release);
    services_.wake(services_.self);
    lock.lock();
  }
}

void Comm::run(const plugin::Request& request) {
  ++tag_;
  switch (request.kind) {
    case plugin::kAllreduce: return allreduce(request);
    case plugin::kAllgather: return allgather(request);
    case plugin::kBroadcast: return broadcast(request);
    default: return alltoall(request);
  }
}

void Comm::allreduce(const plugin::Request& request) {
  ::gloo::AllreduceOptions options(mesh_);
  switch (kElementSizes[request.dtype]) {
    case 1: set_reduction<uint8_t>(options, request); break;
    case 2: set_reduction<uint16_t>(options, request); break;
    case 4: set_reduction<uint32_t>(options, request); break;
    default: set_reduction<uint64_t>(options, request); break;
  }
  options.setReduceFunction(
      [this, &request](void* into, const void* a, const void* b, size_t count) {
        services_.reduce(request.dtype, request.op, into, a, b, count);
      });
  options.setTag(tag_);
  ::gloo::allreduce(options);
}

void Comm::allgather(const plugin::Request& request) {
  ::gloo::AllgathervOptions options(mesh_);
  std::vector<size_t> counts(request.receive_bytes, request.receive_bytes + group_.size);
  const size_t offset = std::accumulate(counts.begin(), counts.begin() + group_.me, size_t{0});
  if (const size_t own = counts[static_cast<size_t>(group_.me)]; own > 0) {
    std::memmove(static_cast<char*>(request.out) + offset, request.in, own);
  }
  options.setOutput(static_cast<char*>(request.out), std::move(counts));
  options.setTag(tag_);
  ::gloo::allgatherv(options);
}

void Comm::broadcast(const plugin::Request& request) {
  ::gloo::BroadcastOptions options(mesh_);
  options.setOutput(static_cast<char*>(request.out), request.count);
  options.setRoot(request.root);
  options.setTag(tag_);
  ::gloo::broadcast(options);
}

void Comm::alltoall(const plugin::Request& request) {
  ::gloo::AlltoallvOptions options(mesh_);
  const auto members = static_cast<size_t>(group_.size);
  auto* in = static_cast<char*>(const_cast<void*>(request.in));
  auto* out = static_cast<char*>(request.out);
  options.setInput(in != nullptr ? in : &nothing_, counts_of(request.send_bytes, members));
  options.setOutput(out != nullptr ? out : &nothing_, counts_of(request.receive_bytes, members));
  options.setTag(tag_);
  ::gloo::alltoallv(options);
}

}  // namespace hvd::backend::gloo
