// SPDX-License-Identifier: Apache-2.0
// What the parts of the stand-in for the CUDA driver share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

struct CUctx_st {
  int device;
};

struct CUgraph_st;

struct CUevent_st {
  uint64_t recorded = 0;       // the latest time
  std::set<uint64_t> pending;  // times that are not reached yet
  bool timed = true;
  std::chrono::steady_clock::time_point reached;  // when it was last
};

namespace fake_cuda {
// What a stream is given; called, and left, with the lock held.
using Work = std::function<void(std::unique_lock<std::mutex>&)>;
}  // namespace fake_cuda

struct CUstream_st {
  explicit CUstream_st(std::string name_) : name(std::move(name_)), thread([this] { run(); }) {
    thread.detach();
  }
  void run();

  std::string name;
  std::deque<fake_cuda::Work> work;
  std::thread thread;
};

namespace fake_cuda {

using Address = unsigned long long;
using Lock = std::lock_guard<std::mutex>;

inline constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidImage = 200,
                     kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500, kNotReady = 600,
                     kCaptureUnsupported = 900, kNoCapture = 904, kGlobal = 0, kRelaxed = 2;

struct Capture {
  int mode = kGlobal;
  std::thread::id by;
  // where the stream's work goes; null: a test only says that it captures
  CUgraph_st* graph = nullptr;
};

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
  std::map<CUstream_st*, Capture> capturing;
  int modules = 0;  // loaded
  int graphs = 0;   // and what was made of them
};

// Guards everything here, events and streams' queues too. Never destroyed, as the streams' threads
// end with the process.
extern std::mutex& mutex;
extern std::condition_variable& changed;
World& world();

extern thread_local std::vector<CUctx_st*> current;
extern thread_local int capture_mode;  // global at first

CUstream_st* stream_of(CUstream_st* given);
std::string known_as(CUstream_st* stream);
// A thread that has not stepped aside would spoil the graph that it, or another one, captures.
int forbidden(const std::string& symbol);
// What the stand-in does not capture.
int not_captured(const std::string& symbol, CUstream_st* stream);
int failure_of(const std::string& symbol);
// Notes the call; what it returns at once if that is not 0.
int enter(const std::string& symbol, const std::string& details = "", bool needs_context = true);
void put(CUstream_st* stream, Work work);
// Into a graph, to be put on the streams that it is launched on.
void note(CUgraph_st* graph, Work work);
bool all_idle();

}  // namespace fake_cuda
