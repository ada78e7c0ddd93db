// SPDX-License-Identifier: Apache-2.0
#include "base/fault_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <utility>

#include "base/fd.h"

namespace hvd {

namespace {

bool blames_another(const Status& why, int self) {
  switch (why.code()) {
    case Code::kPeerLost: return why.rank() != self || self < 0;
    case Code::kShutDown:
    case Code::kSetBroken:
    case Code::kInternal: return why.rank() >= 0 && why.rank() != self;
    default: return false;
  }
}

}  // namespace

FaultRecord::FaultRecord(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void FaultRecord::set_place(int rank, int size) {
  const MutexLock lock(mutex_);
  rank_ = rank;
  size_ = size;
}

void FaultRecord::note(const Status& why) {
  const MutexLock lock(mutex_);
  if (path_.empty() || !blames_another(why, rank_)) return;
  const Fd file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  path_.clear();
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);  // the launcher's agent on this host reads the same clock
  char line[96];
  const int length = std::snprintf(line, sizeof line, "blames %d of %d at %lld.%09ld\n", why.rank(),
                                   size_, static_cast<long long>(at.tv_sec), at.tv_nsec);
  // the launcher goes by the order of ends
  if (file && ::write(file.get(), line, static_cast<size_t>(length)) < 0) return;
}

}  // namespace hvd
