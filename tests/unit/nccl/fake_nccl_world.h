// SPDX-License-Identifier: Apache-2.0
// What the stand-in for NCCL knows.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../device/fake_cuda.h"
#include "fake_nccl_step.h"

struct ncclComm;

namespace fake_nccl {

// What the ranks have queued as their step of one number.
struct Step {
  std::vector<std::vector<Call>> calls;
  int arrived = 0;
  bool over = false;
  std::string wrong;
};

struct Split;

// All ranks of a comm; lives as long as a step of it does.
struct Job {
  int size = 0;
  int arrived = 0;
  int init_polls = 0;
  int finalized = 0;
  std::vector<int> devices;   // by rank, -1: not here yet
  std::vector<bool> aborted;  // by rank
  std::vector<int> errors;    // by rank
  std::map<uint64_t, Step> steps = {};
  std::map<uint64_t, Split> splits = {};
};

// One call of ncclCommSplit by all ranks of a job.
struct Split {
  struct Rank {
    int color;
    int key;
    int rank;
    ncclComm* comm;  // nullptr: aborted meanwhile
  };
  std::vector<Rank> ranks;
};

}  // namespace fake_nccl

struct ncclComm {
  std::shared_ptr<fake_nccl::Job> job;  // none: its parent is being split
  int rank;
  int device;
  uint64_t steps = 0;
  uint64_t splits = 0;
  std::map<int, double> factors = {};
  int next_op = 5;
  // Queued as the library sees it, not on the stream yet.
  std::vector<fake_nccl::Call> held = {};
  fake_cuda::Stream stream = nullptr;
  int polls = 0;
  bool finalized = false;
};

namespace fake_nccl {

// Never destroyed: the streams' threads end with the process.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::weak_ptr<Job>> jobs;  // by id
  std::map<std::string, std::pair<int, int>> failing;
  std::map<int, int> async_errors;  // by device
  std::map<int, int> waiting;       // by device: steps on its streams that wait for other ranks
  std::vector<std::pair<int, std::string>> calls;
  std::set<std::string> faults;
  std::set<ncclComm*> live;
  uint64_t ids = 0;
  int version = 22703;
  int init_delay = 0;
  int enqueue_delay = 0;
};

World& world();
using Lock = std::unique_lock<std::mutex>;

}  // namespace fake_nccl
