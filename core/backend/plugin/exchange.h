// SPDX-License-Identifier: Apache-2.0
// How the members of a set that is being opened tell each other something, over the native comm
// that they already have. Plug-ins meet this way, so no server has to live after the start.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"

namespace hvd::backend::plugin {

// Every call is collective over the members and blocks at most until the deadline. A member that
// cannot go on calls fail() where the others call give(); then all get its error. Used before
// anything else runs on the comm.
class Exchange {
 public:
  struct Surroundings {
    std::function<std::string(int)> describe;  // words a rank: "rank 3 (host a, pid 7)"
    // why nobody needs to wait any longer: a rank is lost; ok while all are there
    std::function<Status()> trouble;
    // How long a rank that is lost is listened to: that a rank has left may be known before what
    // that rank said.
    Duration last_words = std::chrono::milliseconds(100);
  };
  Exchange(Comm& comm, std::vector<int> ranks, int me, Time deadline, Surroundings around)
      : comm_(comm),
        ranks_(std::move(ranks)),
        me_(me),
        deadline_(deadline),
        around_(std::move(around)) {}

  // All members' bytes, `size` each, in member order.
  Status give(const void* bytes, size_t size, void* all);
  // Tells the others why this member gives up; returns `why`.
  Status fail(const Status& why);
  // The end of a stretch of exchanges in which members may have failed: ok, or the error of the
  // first that has.
  Status conclude(const Status& mine);

  int size() const { return static_cast<int>(ranks_.size()); }
  int me() const { return me_; }

 private:
  struct Note;
  Status notes(const Note& mine, std::vector<Note>* all);
  Status gather(const void* bytes, size_t size, void* all);

  Comm& comm_;
  const std::vector<int> ranks_;
  const int me_;
  const Time deadline_;
  const Surroundings around_;
  Status over_;  // once failed, nothing more is exchanged
};

}  // namespace hvd::backend::plugin
