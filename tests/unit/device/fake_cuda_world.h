// SPDX-License-Identifier: Apache-2.0
// What the parts of the stand-in for the CUDA driver share.
#pragma once

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

struct CUevent_st {
  uint64_t recorded = 0;       // the latest time
  std::set<uint64_t> pending;  // times that are not reached yet
};

struct CUstream_st {
  explicit CUstream_st(std::string name_) : name(std::move(name_)), thread([this] { run(); }) { thread.detach(); }
  void run();

  std::string name;
  std::deque<std::function<void(std::unique_lock<std::mutex>&)>> work;
  std::thread thread;
};

namespace fake_cuda {

using Address = unsigned long long;
using Lock = std::lock_guard<std::mutex>;

inline constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidImage = 200, kInvalidContext = 201,
                     kNotFound = 500, kNotReady = 600, kCaptureUnsupported = 900, kRelaxed = 2;

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
  int modules = 0;  // loaded
};

// Guards everything here, events and streams' queues too. Never destroyed, as the streams' threads end with the process.
extern std::mutex& mutex;
extern std::condition_variable& changed;
World& world();

extern thread_local std::vector<CUctx_st*> current;
extern thread_local int capture_mode;  // global at first

CUstream_st* stream_of(CUstream_st* given);
std::string known_as(CUstream_st* stream);
// A thread that has not stepped aside would spoil the graph that another one captures.
int forbidden(const std::string& symbol);
int failure_of(const std::string& symbol);
// Notes the call; what it returns at once if that is not 0.
int enter(const std::string& symbol, const std::string& details = "", bool needs_context = true);
void put(CUstream_st* stream, std::function<void(std::unique_lock<std::mutex>&)> work);
bool all_idle();

}  // namespace fake_cuda
