// SPDX-License-Identifier: Apache-2.0
// The shared memory of ranks that are threads of one process, or of a job of one rank: plain memory
// at the same addresses for all.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "transport/host_shared_memory.h"

namespace hvd::transport {

class ThreadSharedMemory final : public HostSharedMemory {
 public:
  static Result<std::shared_ptr<ThreadSharedMemory>> create(int members);
  // for create()
  explicit ThreadSharedMemory(int members) : attached_(static_cast<size_t>(members)) {}

  const Board& board() const override { return board_; }
  int bell(int member) const override { return bells_[static_cast<size_t>(member)].get(); }
  Result<Window> open_window(int id, size_t bytes, int members, int me) override;
  void close_window(int id) noexcept override;

  // Collective: returns when all members have called it. If that is not by the deadline: the
  // members that have not.
  std::vector<int> attach(int member, Time deadline);

  // Members find the object that the first of them made by a token from the store. The registry
  // behind these two is the one process-wide object of this layer. The alternative, a pointer as
  // text in the store, has no owner between publishing and attaching, so a rank that gives up early
  // would leave the others with a dangling address.
  static void publish(const std::string& token, const std::shared_ptr<ThreadSharedMemory>& shared);
  static std::shared_ptr<ThreadSharedMemory> find(const std::string& token);

 private:
  struct Pages {
    std::shared_ptr<Mapping> mapping;
    int members = 0;
    int closed = 0;
  };

  Mapping memory_;
  Board board_;
  // Owned here and not by each rank: a bell must not be closed, and its number reused, while
  // another thread rings it.
  std::vector<Fd> bells_;
  Mutex mutex_;
  std::condition_variable all_here_;
  std::vector<bool> attached_ HVD_GUARDED_BY(mutex_);
  std::map<int, Pages> windows_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd::transport
