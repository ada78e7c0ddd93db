// SPDX-License-Identifier: Apache-2.0
#include "backend/mpi/comm.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <numeric>

#include "backend/mpi/reduction.h"

namespace hvd::backend::mpi {
namespace {

constexpr int kDataTag = 1;
// The longest message between two ranks; longer data is cut into several, the same on both sides.
constexpr size_t kLongestMessage = size_t{1} << 30;

// The numbers that a member tells the others before they make a communicator together.
struct Place {
  int32_t rank;  // in the parent
  int32_t size;
};

size_t start_of(const size_t* bytes, size_t member) {
  return std::accumulate(bytes, bytes + member, size_t{0});
}

}  // namespace

std::string Comm::failed(const char* call, int code) const {
  return std::string(call) + " on the communicator of group " + std::to_string(group_.id) + " (" +
         std::to_string(group_.size) + " members): " + error_text(api_, code);
}

std::string Comm::open(const plugin::Settings& settings) {
  Handle parent = settings.communicator != 0 ? reinterpret_cast<Handle>(settings.communicator)
                                             : api_.comm_world;
  std::vector<int> ranks;
  if (std::string problem = find_members(parent, &ranks); !problem.empty()) return problem;
  std::string problem;
  process_.run([&] {
    Handle all = nullptr;
    Handle members = nullptr;
    int code = api_.Comm_group(parent, &all);
    if (code != kSuccess) return void(problem = failed("MPI_Comm_group", code));
    code = api_.Group_incl(all, group_.size, ranks.data(), &members);
    api_.Group_free(&all);
    if (code != kSuccess) return void(problem = failed("MPI_Group_incl", code));
    code = api_.Comm_create_group(parent, members, group_.id, &comm_);
    api_.Group_free(&members);
    if (code != kSuccess) return void(problem = failed("MPI_Comm_create_group", code));
    code = api_.Comm_set_errhandler(comm_, api_.errors);
    if (code != kSuccess) problem = failed("MPI_Comm_set_errhandler", code);
  });
  return problem;
}

// Finds the members' ranks in the parent. Collective.
std::string Comm::find_members(Handle parent, std::vector<int>* ranks) {
  Place mine{-1, 0};
  int code = kSuccess;
  process_.run([&] {
    code = api_.Comm_rank(parent, &mine.rank);
    if (code == kSuccess) code = api_.Comm_size(parent, &mine.size);
  });
  std::vector<Place> places(static_cast<size_t>(group_.size));
  char text[512] = {};
  if (services_.exchange(services_.self, &mine, sizeof mine, places.data(), {text, sizeof text}) !=
      0)
    return text;
  if (code != kSuccess) return failed("MPI_Comm_rank", code);
  for (const Place& place : places) {
    if (place.size < group_.size || place.rank < 0 ||
        std::count(ranks->begin(), ranks->end(), place.rank) != 0) {
      const auto member = static_cast<size_t>(&place - places.data());
      return "MPI knows member " + std::to_string(member) + " of " + std::to_string(group_.size) +
             " as rank " + std::to_string(place.rank) + " of " + std::to_string(place.size) +
             "; each rank must be a process of its own in one MPI job";
    }
    ranks->push_back(place.rank);
  }
  return {};
}

Comm::~Comm() {
  if (process_.one_thread()) process_.unwatch(this);
  if (comm_ == nullptr || state_ == kRunning) return;
  process_.run([this] {
    int finalized = 0;
    api_.Finalized(&finalized);
    if (finalized == 0) api_.Comm_free(&comm_);
  });
}

std::string Comm::start(const plugin::Request& request) {
  requests_.clear();
  problem_.clear();
  std::string problem;
  process_.run([&] { problem = begin(request); });
  if (!problem.empty()) {
    process_.taint();
    return problem;
  }
  state_ = kRunning;
  if (process_.one_thread()) {
    process_.watch(this, [this] {
      if (!test()) return false;
      services_.wake(services_.self);
      return true;
    });
  }
  return {};
}

Handle& Comm::add_request() { return requests_.emplace_back(api_.request_null); }

std::string Comm::begin(const plugin::Request& request) {
  switch (request.kind) {
    case plugin::kAllreduce: return allreduce(request);
    case plugin::kAllgather: return allgather(request);
    case plugin::kAlltoall: return alltoall(request);
    case plugin::kBroadcast: {
      const int code = api_.Ibcast(request.out, static_cast<int>(request.count), api_.byte,
                                   request.root, comm_, &add_request());
      return code == kSuccess ? std::string() : failed("MPI_Ibcast", code);
    }
    default: return "unknown kind of request";
  }
}

std::string Comm::allreduce(const plugin::Request& request) {
  const Reduction reduction = Reduction::find(api_, request.dtype, request.op, services_.reduce);
  const int code = api_.Iallreduce(request.in, request.out, static_cast<int>(request.count),
                                   reduction.type, reduction.op, comm_, &add_request());
  return code == kSuccess ? std::string() : failed("MPI_Iallreduce", code);
}

// In place or not must be the same on all members, so the own part is always put where it belongs
// first.
std::string Comm::allgather(const plugin::Request& request) {
  const auto members = static_cast<size_t>(group_.size);
  if (request.on_device != 0) return between_pairs(request);
  counts_.resize(members);
  displacements_.resize(members);
  size_t offset = 0;
  for (size_t m = 0; m < members; ++m) {
    counts_[m] = static_cast<int>(request.receive_bytes[m]);
    displacements_[m] = static_cast<int>(offset);
    offset += request.receive_bytes[m];
  }
  const auto me = static_cast<size_t>(group_.me);
  if (counts_[me] > 0) {
    std::memmove(static_cast<char*>(request.out) + displacements_[me], request.in,
                 request.receive_bytes[me]);
  }
  const int code = api_.Iallgatherv(in_place(), 0, api_.byte, request.out, counts_.data(),
                                    displacements_.data(), api_.byte, comm_, &add_request());
  return code == kSuccess ? std::string() : failed("MPI_Iallgatherv", code);
}

// MPI_Ialltoallv counts in int, and whether that is enough only the two ranks of a pair know: so
// messages between pairs.
std::string Comm::alltoall(const plugin::Request& request) {
  const auto me = static_cast<size_t>(group_.me);
  if (request.on_device == 0 && request.send_bytes[me] > 0) {
    std::memmove(static_cast<char*>(request.out) + start_of(request.receive_bytes, me),
                 static_cast<const char*>(request.in) + start_of(request.send_bytes, me),
                 request.send_bytes[me]);
  }
  return between_pairs(request);
}

// All but the own part. Also of memory of devices, which Open MPI's messages can be given and its
// Iallgatherv can not.
std::string Comm::between_pairs(const plugin::Request& request) {
  const auto members = static_cast<size_t>(group_.size);
  const auto me = static_cast<size_t>(group_.me);
  // the same for everybody, but not for who has it all
  const bool gathers = request.kind == plugin::kAllgather;
  const auto complete = [&](size_t member) {
    return gathers && static_cast<int32_t>(member) == request.root;
  };
  for (size_t step = 1; step < members; ++step) {
    const size_t from = (me + members - step) % members;
    const size_t to = (me + step) % members;
    char* out = static_cast<char*>(request.out) + start_of(request.receive_bytes, from);
    const char* in =
        static_cast<const char*>(request.in) + (gathers ? 0 : start_of(request.send_bytes, to));
    const size_t asked_bytes = gathers ? request.receive_bytes[me] : request.send_bytes[to];
    const size_t send_bytes = complete(to) ? 0 : asked_bytes;
    const size_t receive_bytes = complete(me) ? 0 : request.receive_bytes[from];
    for (size_t at = 0; at < receive_bytes; at += kLongestMessage) {
      const auto bytes = static_cast<int>(std::min(kLongestMessage, receive_bytes - at));
      const int code = api_.Irecv(out + at, bytes, api_.byte, static_cast<int>(from), kDataTag,
                                  comm_, &add_request());
      if (code != kSuccess) return failed("MPI_Irecv", code);
    }
    for (size_t at = 0; at < send_bytes; at += kLongestMessage) {
      const auto bytes = static_cast<int>(std::min(kLongestMessage, send_bytes - at));
      const int code = api_.Isend(in + at, bytes, api_.byte, static_cast<int>(to), kDataTag, comm_,
                                  &add_request());
      if (code != kSuccess) return failed("MPI_Isend", code);
    }
  }
  return {};
}

// True once the request is over, well or not.
bool Comm::test() {
  int flag = 0;
  const int code =
      api_.Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, nullptr);
  if (code != kSuccess) {
    problem_ = failed("MPI_Testall", code);
    process_.taint();
    state_ = kFailed;
    return true;
  }
  if (flag != 0) state_ = kDone;
  return flag != 0;
}

int32_t Comm::poll(std::string* problem) {
  if (!process_.one_thread() && state_ == kRunning) test();
  switch (state_) {
    case kRunning: return 1;
    case kFailed: *problem = problem_; return -1;
    default: return 0;
  }
}

// MPI can not take a collective back. Nothing moves its bytes any more unless this process calls
// MPI again, which after the failure of a rank only its launcher's end of the job prevents.
void Comm::abort() {
  if (state_ != kRunning) return;
  process_.taint();
  if (process_.one_thread()) process_.unwatch(this);
}

bool Comm::reduces(int32_t dtype, int32_t op) { return Reduction::known(dtype, op); }

}  // namespace hvd::backend::mpi
