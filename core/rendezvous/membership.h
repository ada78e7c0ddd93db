// SPDX-License-Identifier: Apache-2.0
// A worker of an elastic job and its launcher, which decides who the members of the job are. The
// two exchange lines over a Unix socket. A worker says:
//   ask WORKER POSITION    for a place in the next epoch; POSITION is how far the worker's state
//   has
//                          come, and -1 stands for no state
//   leave WORKER           for leaving when the members next change
//   set WORKER ID RANKS    nothing, but tells of a process set that all have made; RANKS with
//   commas unset WORKER ID        nothing, but tells of a process set that all have ended
// and hears:
//   begin EPOCH RANK SIZE SYNCHRONIZE URL NEXT_ID ID:RANKS...
//                                            the epoch begins, and its members meet at the URL; the
//                                            process sets that go on, and the first unused id
//   changed FLAGS                            members are about to come or go
//   lost WORKER                              a member has ended
//   expelled RANK CAUSE                      a member stands still, and the others go on without
//   it;
//                                            the member hears that, too, when it goes on
//   refuse REASON                            the worker belongs to the job no more
//   expel REASON                             likewise, because the worker stood still
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/thread_annotations.h"

namespace hvd::rendezvous {

// The membership that this worker has a place in.
struct Epoch {
  int64_t number = 0;  // from 1
  int rank = 0;
  int size = 1;
  bool synchronize = false;  // states of members differ, and all take over rank 0's
  std::string url;
  // The process sets whose members all go on, by id, with their ranks in this epoch. The ids of
  // others that were below next_set_id.
  std::map<int32_t, std::vector<int>> sets;
  int32_t next_set_id = 1;
};

class Membership {
 public:
  // Whether a launcher of an elastic job has started this process.
  static bool is_elastic(const Environment& environment);

  // Asks for a place and waits until the next epoch begins. kTimeout: no epoch has begun at the
  // deadline; kDismissed: the launcher gives no place any more, with ETIMEDOUT where the worker
  // stood still; kIo: the launcher is out of reach.
  static Result<std::shared_ptr<Membership>> ask(const Environment& environment, int64_t position,
                                                 Time deadline);

  const Epoch& epoch() const { return epoch_; }
  // The place on its host that this worker has as long as it lives; -1 if the launcher has not
  // said.
  int slot() const { return slot_; }

  // The changes that the launcher has announced since the epoch began. Never blocks.
  Result<uint32_t> changes() HVD_EXCLUDES(mutex_);
  // kPeerLost if a member has ended or was expelled since the epoch began. Never blocks.
  Status lost() HVD_EXCLUDES(mutex_);
  // The ranks expelled since the last call, with the cause. Never blocks; fails once the launcher
  // is out of reach.
  Result<std::map<int, std::string>> expelled() HVD_EXCLUDES(mutex_);
  // Readable when expelled() may have news.
  std::vector<int> descriptors() const { return {socket_.get(), bell_.get()}; }
  // Tells the launcher that this worker wants to leave.
  Status leave() HVD_EXCLUDES(mutex_);
  // Tells the launcher that all ranks have made this process set, or ended it if there are no
  // ranks.
  Status tell_of_set(int32_t id, const std::vector<int>& ranks) HVD_EXCLUDES(mutex_);

 private:
  Membership(Fd socket, Fd bell, int worker, int slot)
      : socket_(std::move(socket)), bell_(std::move(bell)), worker_(worker), slot_(slot) {}

  // Takes in what the launcher has said.
  Status catch_up() HVD_EXCLUDES(mutex_);
  void note_expelled(const std::string& said) HVD_REQUIRES(mutex_);
  Status say(const std::string& line);
  // The next whole line; kTimeout if there is none in time.
  Result<std::string> hear(Time deadline);

  const Fd socket_;
  const Fd bell_;  // rung when somebody has taken in that a member was expelled
  const int worker_, slot_;
  Epoch epoch_;
  Mutex mutex_;
  std::string arrived_ HVD_GUARDED_BY(mutex_);  // and not taken yet
  uint32_t changes_ HVD_GUARDED_BY(mutex_) = 0;
  std::string lost_ HVD_GUARDED_BY(mutex_);  // who, and how; or empty
  std::map<int, std::string> expelled_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd::rendezvous
