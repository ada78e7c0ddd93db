// SPDX-License-Identifier: Apache-2.0
// Where the time of the running group of a set goes.
#pragma once

#include "backend/backend.h"
#include "base/ticks.h"
#include "engine/flight_recorder.h"

namespace hvd::engine {

class GroupMeter {
 public:
  // `agreed`: when this rank learned of the group; `before`: the effort of its comm so far.
  void begin(uint64_t agreed, const backend::Effort& before) {
    record_ = {};
    record_.agreed = agreed;
    record_.begun = ticks();
    before_ = before;
    waits_since_ = 0;
    longest_ = 0;
  }
  void before_poll() {
    if (waits_since_ != 0) looked_ = ticks();
  }
  // `straggler` finds the rank whose data the group waits for, or -1.
  template <class Straggler>
  void after_poll(backend::Progress progress, Straggler&& straggler) {
    if (progress == backend::Progress::kWaiting) {
      if (waits_since_ != 0) return;
      waits_since_ = ticks();
      waits_for_ = straggler();
    } else if (waits_since_ != 0) {
      if (looked_ > waits_since_) add(looked_ - waits_since_);
      waits_since_ = 0;
    }
  }
  GroupRecord end(const backend::Effort& after, uint64_t bytes, size_t operations) {
    spent_ = after - before_;
    record_.reduced = spent_.reduced;
    record_.copied = spent_.copied;
    record_.bytes = bytes;
    record_.operations = operations;
    return record_;
  }
  // The effort for the group that has ended.
  const backend::Effort& spent() const { return spent_; }

 private:
  void add(uint64_t wait) {
    record_.waited += wait;
    if (wait <= longest_) return;
    longest_ = wait;
    record_.waited_for = waits_for_;
  }

  GroupRecord record_;
  backend::Effort before_;
  backend::Effort spent_;
  uint64_t waits_since_ = 0;  // ticks; 0 while the group moves
  int waits_for_ = -1;
  uint64_t looked_ = 0;
  uint64_t longest_ = 0;  // longest wait so far
};

}  // namespace hvd::engine
