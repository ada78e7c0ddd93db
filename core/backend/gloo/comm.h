// SPDX-License-Identifier: Apache-2.0
// The collectives of one group. Gloo's block, so a thread of the comm runs them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "backend/gloo/mesh.h"
#include "backend/plugin/plugin.h"

namespace hvd::backend::gloo {

class Comm {
 public:
  Comm(const plugin::Group& group, const plugin::Services& services)
      : group_(group), services_(services) {}
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  // Returns what went wrong, or nothing.
  std::string open(const plugin::Settings& settings);
  void start(const plugin::Request& request);
  // 0 done, 1 not yet, negative: failed, with the reason in `problem`.
  int32_t poll(std::string* problem) const;
  // Returns once nothing touches the request's memory any more.
  void abort();

 private:
  void work();
  void run(const plugin::Request& request);
  void allreduce(const plugin::Request& request);
  void allgather(const plugin::Request& request);
  void broadcast(const plugin::Request& request);
  void alltoall(const plugin::Request& request);

  const plugin::Group group_;
  const plugin::Services& services_;
  std::shared_ptr<Mesh> mesh_;
  uint32_t tag_ = 0;
  char nothing_ = 0;  // the address of a buffer without bytes

  std::mutex mutex_;
  std::condition_variable news_;
  plugin::Request request_{};
  bool requested_ = false;
  bool ending_ = false;
  std::string problem_;  // written before state_
  enum State : int { kIdle, kRunning, kDone, kFailed };
  std::atomic<int> state_{kIdle};
  std::thread thread_;
};

}  // namespace hvd::backend::gloo
