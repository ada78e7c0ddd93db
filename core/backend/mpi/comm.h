// SPDX-License-Identifier: Apache-2.0
// The collectives of one process set over MPI's nonblocking ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/mpi/process.h"

namespace hvd::backend::mpi {

class Comm {
 public:
  Comm(Process& process, const plugin::Group& group, const plugin::Services& services)
      : process_(process), api_(process.api()), group_(group), services_(services) {}
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  // Each returns what went wrong, or nothing.
  std::string open(const plugin::Settings& settings);
  std::string start(const plugin::Request& request);
  // 0 done, 1 not yet, negative: failed, with the reason in `problem`.
  int32_t poll(std::string* problem);
  void abort();

  static bool reduces(int32_t dtype, int32_t op);

 private:
  std::string find_members(Handle parent, std::vector<int>* ranks);
  std::string begin(const plugin::Request& request);
  std::string allreduce(const plugin::Request& request);
  std::string allgather(const plugin::Request& request);
  std::string alltoall(const plugin::Request& request);
  std::string between_pairs(const plugin::Request& request);
  bool test();
  std::string failed(const char* call, int code) const;
  Handle& add_request();

  Process& process_;
  const Api& api_;
  const plugin::Group group_;
  const plugin::Services& services_;
  Handle comm_ = nullptr;
  std::vector<Handle> requests_;
  std::vector<int> counts_, displacements_;
  std::string problem_;  // the running request's; written before state_
  enum State : int { kIdle, kRunning, kDone, kFailed };
  std::atomic<int> state_{kIdle};
};

}  // namespace hvd::backend::mpi
