// SPDX-License-Identifier: Apache-2.0
// A rank's note for the launcher that its own operations fail because another rank has ended. When
// several ranks fail, the launcher thus knows which of them failed first, in whatever order they
// end.
#pragma once

#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace hvd {

// Owned by the context. Thread safe. Without a path it does nothing.
class FaultRecord {
 public:
  // Removes the note of an earlier context of this process: a process that has started anew is over
  // it.
  explicit FaultRecord(std::string path);

  void set_place(int rank, int size);
  // Writes down, the first time, whom an error blames; nothing if it is no other rank. Called
  // before the program sees the error.
  void note(const Status& why);

 private:
  Mutex mutex_;
  std::string path_ HVD_GUARDED_BY(mutex_);  // empty once written
  int rank_ HVD_GUARDED_BY(mutex_) = -1;
  int size_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvd
