// SPDX-License-Identifier: Apache-2.0
// A plug-in that can do as little as the boundary allows: it takes few bytes at once and reduces
// one type only. Whatever the engine makes of that is tested with it. Members are threads of one
// process and reach each other's memory.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "narrow_backend.h"

namespace {

namespace plugin = hvd::backend::plugin;

constexpr int32_t kFloat32 = 7;
constexpr size_t kMaxBytes = 3000;

struct Comm {
  plugin::Group group;
  const plugin::Services* services;
  std::vector<Comm*> members;
  plugin::Request request{};
  std::atomic<uint64_t> started{0};   // requests
  std::atomic<uint64_t> finished{0};  // the own half of them
};

// For ever: a member that is late looks at those that have gone.
void keep(std::unique_ptr<Comm> comm) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::unique_ptr<Comm>>;
  const std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(std::move(comm));
}

int32_t load(const plugin::Settings*, plugin::Text text) {
  std::snprintf(text.data, text.size, "narrow");
  return 0;
}

int32_t open(const plugin::Settings*, const plugin::Group* group, const plugin::Services* services,
             void** out, plugin::Text error) {
  auto comm = std::make_unique<Comm>();
  comm->group = *group;
  comm->services = services;
  comm->members.resize(static_cast<size_t>(group->size));
  Comm* self = comm.get();
  const int32_t code =
      services->exchange(services->self, &self, sizeof self, comm->members.data(), error);
  if (code == 0) *out = comm.get();
  keep(std::move(comm));
  return code;
}

void close(void*) {}
void abort(void*) {}
int32_t reduces(const void*, int32_t dtype, int32_t) { return dtype == kFloat32 ? 1 : 0; }

size_t before(const size_t* bytes, int32_t member) {
  size_t sum = 0;
  for (int32_t m = 0; m < member; ++m) sum += bytes[m];
  return sum;
}

void copy(void* out, size_t to, const void* in, size_t from, size_t bytes) {
  if (bytes == 0) return;
  std::byte* const target = narrow::find(static_cast<std::byte*>(out) + to);
  const std::byte* const source = narrow::find(static_cast<const std::byte*>(in) + from);
  // In place, others may be reading what is there already.
  if (target != source) std::memcpy(target, source, bytes);
}

// This member's half: what it receives. All requests are there.
void receive(Comm& comm) {
  const plugin::Request& mine = comm.request;
  for (int32_t m = 0; m < comm.group.size; ++m) {
    if (mine.on_device != 0 &&
        (m == comm.group.me || (mine.kind == plugin::kAllgather && mine.root == comm.group.me)))
      continue;
    const plugin::Request& other = comm.members[static_cast<size_t>(m)]->request;
    switch (mine.kind) {
      case plugin::kAllreduce:
        if (m == 0) copy(mine.out, 0, other.in, 0, mine.count * sizeof(float));
        if (m > 0)
          comm.services->reduce(mine.dtype, mine.op, mine.out, mine.out, other.in, mine.count);
        break;
      case plugin::kAllgather:
        copy(mine.out, before(mine.receive_bytes, m), other.in, 0, mine.receive_bytes[m]);
        break;
      case plugin::kBroadcast:
        if (m == mine.root && m != comm.group.me) copy(mine.out, 0, other.out, 0, mine.count);
        break;
      default:
        copy(mine.out, before(mine.receive_bytes, m), other.in,
             before(other.send_bytes, comm.group.me), mine.receive_bytes[m]);
    }
  }
}

bool all_reach(const Comm& comm, std::atomic<uint64_t> Comm::* counter, uint64_t value) {
  for (const Comm* member : comm.members) {
    if ((member->*counter).load() < value) return false;
  }
  return true;
}

int32_t start(void* self, const plugin::Request* request, plugin::Text error) {
  Comm& comm = *static_cast<Comm*>(self);
  const size_t bytes = request->kind == plugin::kAllreduce ? 0 : request->count;
  if (bytes > kMaxBytes || (request->kind == plugin::kAllreduce && request->dtype != kFloat32)) {
    std::snprintf(error.data, error.size, "kind %d with %zu bytes was not offered", request->kind,
                  bytes);
    return -80;
  }
  comm.request = *request;
  ++comm.started;
  return 0;
}

int32_t poll(void* self, plugin::Text error) {
  if (narrow::fails()) {
    std::snprintf(error.data, error.size, "lost its way");
    return -63;
  }
  Comm& comm = *static_cast<Comm*>(self);
  if (!narrow::serves(comm.request)) {
    std::snprintf(error.data, error.size, "memory of a device that is not the thread's");
    return -80;
  }
  const uint64_t number = comm.started;
  if (comm.finished < number && all_reach(comm, &Comm::started, number)) {
    receive(comm);
    comm.finished = number;
  }
  return comm.finished == number && all_reach(comm, &Comm::finished, number) ? 0 : 1;
}

constexpr plugin::Table kTable = {
    .struct_size = sizeof(plugin::Table),
    .abi = plugin::kAbi,
    .name = narrow::kName,
    .must_poll = 1,
    .reserved = 0,
    .max_bytes = kMaxBytes,
    .load = load,
    .open = open,
    .close = close,
    .abort = abort,
    .reduces = reduces,
    .start = start,
    .poll = poll,
    .launch = nullptr,
    .launch_broadcast = nullptr,
    .thread_level = nullptr,
    .takes_device_memory = narrow::takes_device_memory,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const plugin::Table* hvd_backend_v1() {
  return &kTable;
}
