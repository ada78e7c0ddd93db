// SPDX-License-Identifier: Apache-2.0
// The part of NCCL's interface that the engine uses, on the streams of the stand-in for the driver.
#include "fake_nccl.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "fake_nccl_world.h"

using namespace fake_nccl;

struct ncclUniqueId {
  char internal[128];
};

struct ncclConfig {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

namespace {

constexpr int kUnhandledCudaError = 1, kInternalError = 3, kInvalidArgument = 4, kInvalidUsage = 5,
              kRemoteError = 6, kInProgress = 7;
constexpr unsigned kMagic = 0xcafebeef, kOldestConfig = 21400;
constexpr auto kPatience = std::chrono::seconds(20);

struct Group {
  int depth = 0;
  std::vector<Call> calls;
  ncclComm* comm = nullptr;
  fake_cuda::Stream stream = nullptr;
};
thread_local Group group;

int fault(const std::string& text, int error) {
  world().faults.insert(text);
  return error;
}

// Notes the call; what it returns at once if that is not 0.
int enter(int device, const std::string& symbol, const std::string& details = "") {
  world().calls.emplace_back(device, details.empty() ? symbol : symbol + " " + details);
  const auto found = world().failing.find(symbol);
  if (found == world().failing.end()) return 0;
  return found->second.first-- > 0 ? 0 : found->second.second;
}

bool alive(ncclComm* comm, const char* symbol) {
  if (world().live.count(comm) != 0) return true;
  fault(std::string(symbol) + " of a comm that has gone", 0);
  return false;
}

// On the stream's thread: waits for the other ranks' parts of the step.
void take_part(const std::shared_ptr<Job>& job, int rank, int device, uint64_t number,
               const std::vector<Call>& calls) {
  Lock lock(world().mutex);
  const auto me = static_cast<size_t>(rank);
  Step& step = job->steps[number];
  step.calls.resize(static_cast<size_t>(job->size));
  step.calls[me] = calls;
  if (!job->aborted[me] && ++step.arrived == job->size) {
    step.wrong = fake_nccl::run(step.calls);
    step.over = true;
    if (!step.wrong.empty()) {
      fault(step.wrong, 0);
      job->errors.assign(job->errors.size(), kInternalError);
    }
    world().changed.notify_all();
  }
  ++world().waiting[device];
  const bool ended =
      world().changed.wait_for(lock, kPatience, [&] { return step.over || job->aborted[me]; });
  --world().waiting[device];
  world().changed.notify_all();
  if (!ended) fault("a step that the other ranks have not queued", 0);
  if (!step.over) fake_nccl::spoil(calls, rank, job->size);
}

void put_on_stream(ncclComm* comm) {
  fake_cuda::launch(
      comm->stream, 0,
      [job = comm->job, rank = comm->rank, device = comm->device, number = comm->steps++,
       calls = std::move(comm->held)] { take_part(job, rank, device, number, calls); });
  comm->held.clear();
}

bool connected(const ncclComm* comm) {
  return comm->job && comm->job->arrived == comm->job->size && comm->job->init_polls <= 0;
}

// Whether other ranks have yet to call the split that this one has called.
bool splitting(const ncclComm* comm) {
  const auto latest = comm->job->splits.find(comm->splits - 1);
  return latest != comm->job->splits.end() &&
         latest->second.ranks.size() < static_cast<size_t>(comm->job->size);
}

// Whether a step of this rank has not ended.
bool under_way(const ncclComm* comm) {
  return comm->steps > 0 && !comm->job->steps[comm->steps - 1].over;
}

// All ranks have called it: those of one color become a job, in the order of their keys.
void finish(Split& split) {
  std::sort(split.ranks.begin(), split.ranks.end(), [](const Split::Rank& a, const Split::Rank& b) {
    return std::pair(a.key, a.rank) < std::pair(b.key, b.rank);
  });
  std::map<int, std::vector<ncclComm*>> of_color;
  for (const Split::Rank& rank : split.ranks) {
    if (rank.color >= 0) of_color[rank.color].push_back(rank.comm);
  }
  for (const auto& [color, comms] : of_color) {
    const auto size = static_cast<int>(comms.size());
    const auto job = std::make_shared<Job>(Job{size,
                                               size,
                                               world().init_delay,
                                               0,
                                               {},
                                               std::vector<bool>(comms.size()),
                                               std::vector<int>(comms.size())});
    for (size_t rank = 0; rank < comms.size(); ++rank) {
      job->devices.push_back(comms[rank] == nullptr ? -1 : comms[rank]->device);
      job->aborted[rank] = comms[rank] == nullptr;
      if (comms[rank] == nullptr) continue;
      comms[rank]->job = job;
      comms[rank]->rank = static_cast<int>(rank);
    }
  }
}

// What has been collected, or one call, as one step.
int queue(ncclComm* comm, fake_cuda::Stream stream, std::vector<Call> calls) {
  if (!connected(comm))
    return fault("a collective on a comm that has not connected", kInvalidArgument);
  if (!comm->held.empty())
    return fault("a collective while the one before is in progress", kInvalidUsage);
  comm->held = std::move(calls);
  comm->stream = stream;
  comm->polls = world().enqueue_delay;
  if (comm->polls > 0) return kInProgress;
  put_on_stream(comm);
  return 0;
}

int submit(const Call& call, ncclComm* comm, fake_cuda::Stream stream) {
  const Lock lock(world().mutex);
  const std::string text = call.text();
  const std::string symbol = text.substr(0, text.find(' '));
  if (!alive(comm, symbol.c_str())) return kInvalidArgument;
  if (const int error = enter(comm->device, symbol,
                              text.substr(symbol.size() + 1) + " " + fake_cuda::name_of(stream));
      error != 0) {
    return error;
  }
  if (group.depth == 0) return queue(comm, stream, {call});
  if (!group.calls.empty() && (group.comm != comm || group.stream != stream)) {
    return fault("a group of several comms or streams", kInvalidUsage);
  }
  group.comm = comm;
  group.stream = stream;
  group.calls.push_back(call);
  return 0;
}

// The operation of a number, as the call has it: numbers from 5 on are sums of products.
void set_op(Call& call, int op, ncclComm* comm) {
  const Lock lock(world().mutex);
  const auto factor = comm->factors.find(op);
  if (op > 3 && factor == comm->factors.end()) fault("an operation that there is not", 0);
  call.op = op > 3 ? 0 : op;
  call.factor = factor == comm->factors.end() ? 1.0 : factor->second;
}

// A comm that goes before its split is finished.
void forget_in_splits(const ncclComm* child) {
  for (ncclComm* parent : world().live) {
    if (!parent->job) continue;
    for (auto& [number, split] : parent->job->splits) {
      for (Split::Rank& rank : split.ranks) {
        if (rank.comm == child) rank.comm = nullptr;
      }
    }
  }
}

// Forgets the comm; its steps that wait are ended if `abort`.
void end(ncclComm* comm, bool abort) {
  if (abort && comm->job) {
    comm->job->aborted[static_cast<size_t>(comm->rank)] = true;
    for (size_t r = 0; r < comm->job->errors.size(); ++r) {
      if (!comm->job->aborted[r] && comm->job->errors[r] == 0) comm->job->errors[r] = kRemoteError;
    }
    world().changed.notify_all();
  }
  if (!comm->job) forget_in_splits(comm);
  world().live.erase(comm);
  delete comm;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  const Lock lock(world().mutex);
  *version = world().version;
  return 0;
}

const char* ncclGetErrorString(int error) {
  switch (error) {
    case 1: return "unhandled cuda error";
    case 2: return "unhandled system error";
    case 4: return "invalid argument";
    case 5: return "invalid usage";
    case 6: return "remote process exited or there was a network error";
    default: return "internal error";
  }
}

const char* ncclGetLastError(ncclComm*) { return "an error of the stand-in"; }

int ncclGetUniqueId(ncclUniqueId* id) {
  const Lock lock(world().mutex);
  std::memset(id, 0, sizeof *id);
  const uint64_t number = ++world().ids;
  std::memcpy(id->internal, &number, sizeof number);
  return enter(fake_cuda::current_device(), "ncclGetUniqueId");
}

int ncclCommInitRankConfig(ncclComm** comm, int size, ncclUniqueId id, int rank,
                           ncclConfig* config) {
  const int device = fake_cuda::current_device();
  const Lock lock(world().mutex);
  if (const int error = enter(device, "ncclCommInitRankConfig"); error != 0) return error;
  if (device < 0) return fault("ncclCommInitRankConfig without a context", kUnhandledCudaError);
  if (config->size < sizeof(ncclConfig) || config->magic != kMagic ||
      config->version < kOldestConfig || config->blocking != 0) {
    return fault("a config that the library does not know", kInvalidArgument);
  }
  const std::string name(id.internal, sizeof id.internal);
  std::shared_ptr<Job> job = world().jobs[name].lock();
  if (!job) {
    job = std::make_shared<Job>();
    const auto ranks = static_cast<size_t>(size);
    *job = {size,
            0,
            world().init_delay,
            0,
            std::vector<int>(ranks, -1),
            std::vector<bool>(ranks),
            std::vector<int>(ranks)};
    world().jobs[name] = job;
  }
  for (const int other : job->devices) {
    if (other == device)
      job->errors.assign(job->errors.size(), fault("two ranks on one device", kInvalidUsage));
  }
  job->devices[static_cast<size_t>(rank)] = device;
  ++job->arrived;
  *comm = new ncclComm{job, rank, device};
  world().live.insert(*comm);
  return kInProgress;
}

int ncclCommSplit(ncclComm* comm, int color, int key, ncclComm** made, ncclConfig* config) {
  const Lock lock(world().mutex);
  if (!alive(comm, "ncclCommSplit")) return kInvalidArgument;
  if (const int error = enter(comm->device, "ncclCommSplit", std::to_string(color)); error != 0)
    return error;
  if (config->blocking != 0) return fault("a comm that blocks", kInvalidArgument);
  if (!connected(comm) || !comm->held.empty() || under_way(comm) || splitting(comm))
    return fault("ncclCommSplit at a wrong time", kInvalidUsage);
  if (color >= 0) {
    *made = new ncclComm{nullptr, -1, comm->device};
    world().live.insert(*made);
  }
  Split& split = comm->job->splits[comm->splits++];
  split.ranks.push_back({color, key, comm->rank, color >= 0 ? *made : nullptr});
  if (split.ranks.size() == static_cast<size_t>(comm->job->size)) finish(split);
  return kInProgress;
}

int ncclCommGetAsyncError(ncclComm* comm, int* error) {
  const Lock lock(world().mutex);
  if (!alive(comm, "ncclCommGetAsyncError")) return kInvalidArgument;
  if (!comm->job) {
    *error = kInProgress;
    return 0;
  }
  const auto told = world().async_errors.find(comm->device);
  *error = told == world().async_errors.end() ? comm->job->errors[static_cast<size_t>(comm->rank)]
                                              : told->second;
  if (*error != 0) return 0;
  if (comm->job->arrived == comm->job->size && comm->job->init_polls > 0) --comm->job->init_polls;
  if (!comm->held.empty() && --comm->polls <= 0) put_on_stream(comm);
  const bool leaving = comm->finalized && comm->job->finalized < comm->job->size;
  *error = connected(comm) && comm->held.empty() && !leaving && !splitting(comm) ? 0 : kInProgress;
  return 0;
}

// In progress until all ranks have called it.
int ncclCommFinalize(ncclComm* comm) {
  const Lock lock(world().mutex);
  if (!alive(comm, "ncclCommFinalize")) return kInvalidArgument;
  if (!connected(comm))
    return fault("ncclCommFinalize before the comm has connected", kInvalidUsage);
  if (const int error = enter(comm->device, "ncclCommFinalize"); error != 0) return error;
  if (comm->finalized) return fault("ncclCommFinalize twice", kInvalidUsage);
  comm->finalized = true;
  ++comm->job->finalized;
  return kInProgress;
}

int ncclCommDestroy(ncclComm* comm) {
  const Lock lock(world().mutex);
  if (!alive(comm, "ncclCommDestroy")) return kInvalidArgument;
  enter(comm->device, "ncclCommDestroy");
  if (!comm->held.empty()) fault("ncclCommDestroy while calls are in progress", 0);
  if (!comm->finalized || comm->job->finalized < comm->job->size)
    fault("ncclCommDestroy before all ranks have left", 0);
  end(comm, false);
  return 0;
}

// Waits for all kernels of the device, because the real one frees memory.
int ncclCommAbort(ncclComm* comm) {
  Lock lock(world().mutex);
  if (!alive(comm, "ncclCommAbort")) return kInvalidArgument;
  const int device = comm->device;
  enter(device, "ncclCommAbort");
  end(comm, true);
  const bool free =
      world().changed.wait_for(lock, kPatience, [&] { return world().waiting[device] == 0; });
  return free ? 0 : fault("ncclCommAbort behind a kernel of another comm", kUnhandledCudaError);
}

int ncclGroupStart() {
  const Lock lock(world().mutex);
  ++group.depth;
  return enter(fake_cuda::current_device(), "ncclGroupStart");
}

int ncclGroupEnd() {
  const Lock lock(world().mutex);
  const int error = enter(fake_cuda::current_device(), "ncclGroupEnd");
  if (group.depth == 0) return fault("ncclGroupEnd without a group", kInvalidUsage);
  if (--group.depth > 0) return error;
  const Group ended = std::exchange(group, {});
  if (error != 0 || ended.calls.empty()) return error;
  return queue(ended.comm, ended.stream, ended.calls);
}

int ncclRedOpCreatePreMulSum(int* op, void* scalar, int dtype, int residence, ncclComm* comm) {
  const Lock lock(world().mutex);
  if (!alive(comm, "ncclRedOpCreatePreMulSum")) return kInvalidArgument;
  if (const int error = enter(comm->device, "ncclRedOpCreatePreMulSum"); error != 0) return error;
  if (residence != 1) return fault("a factor that is not on the host", kInvalidArgument);
  *op = comm->next_op++;
  comm->factors[*op] = fake_nccl::scalar(scalar, dtype);
  return 0;
}

int ncclRedOpDestroy(int op, ncclComm* comm) {
  const Lock lock(world().mutex);
  if (!alive(comm, "ncclRedOpDestroy")) return kInvalidArgument;
  enter(comm->device, "ncclRedOpDestroy");
  return comm->factors.erase(op) == 1
             ? 0
             : fault("an operation is destroyed that there is not", kInvalidArgument);
}

int ncclAllReduce(const void* in, void* out, size_t count, int dtype, int op, ncclComm* comm,
                  fake_cuda::Stream stream) {
  Call call{Kind::kAllReduce, in, out, count, dtype};
  set_op(call, op, comm);
  return submit(call, comm, stream);
}

int ncclReduce(const void* in, void* out, size_t count, int dtype, int op, int root, ncclComm* comm,
               fake_cuda::Stream stream) {
  Call call{Kind::kReduce, in, out, count, dtype};
  set_op(call, op, comm);
  call.peer = root;
  return submit(call, comm, stream);
}

int ncclReduceScatter(const void* in, void* out, size_t count, int dtype, int op, ncclComm* comm,
                      fake_cuda::Stream stream) {
  Call call{Kind::kReduceScatter, in, out, count, dtype};
  set_op(call, op, comm);
  return submit(call, comm, stream);
}

int ncclBroadcast(const void* in, void* out, size_t count, int dtype, int root, ncclComm* comm,
                  fake_cuda::Stream stream) {
  return submit({Kind::kBroadcast, in, out, count, dtype, 0, 1.0, root}, comm, stream);
}

int ncclAllGather(const void* in, void* out, size_t count, int dtype, ncclComm* comm,
                  fake_cuda::Stream stream) {
  return submit({Kind::kAllGather, in, out, count, dtype}, comm, stream);
}

int ncclSend(const void* in, size_t count, int dtype, int peer, ncclComm* comm,
             fake_cuda::Stream stream) {
  return submit({Kind::kSend, in, nullptr, count, dtype, 0, 1.0, peer}, comm, stream);
}

int ncclRecv(void* out, size_t count, int dtype, int peer, ncclComm* comm,
             fake_cuda::Stream stream) {
  return submit({Kind::kReceive, nullptr, out, count, dtype, 0, 1.0, peer}, comm, stream);
}

}  // extern "C"
