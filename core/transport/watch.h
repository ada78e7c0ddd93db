// SPDX-License-Identifier: Apache-2.0
// Notices the end of the other processes on this host, and finds out how they ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "transport/events.h"

namespace hvd::transport {

class Watch {
 public:
  struct Loss {
    int member;
    std::string cause;
    bool hung_up;  // the process did not end
  };

  // Per member: pidfd and socket, either may be empty, and the number that its process has for
  // itself. `events` outlives the watch.
  static Result<Watch> start(Events& events, std::vector<Fd> pidfds, std::vector<Fd> sockets,
                             const std::vector<pid_t>& pids);

  bool empty() const { return members_.empty(); }
  void on_process(int member);  // the pidfd became readable
  void on_socket(int member);   // the Unix socket became readable
  // Members found to be lost by now; each is named once.
  std::vector<Loss> take_losses();
  // The member has left in order, or its loss is known: look no more.
  void forget(int member);
  // Closes the connections in a way that the others notice even if a forked child still holds the
  // sockets.
  void hang_up();

 private:
  enum class State { kAlive, kEnded, kHungUp, kSettled };
  struct Member {
    Fd pidfd;
    Fd socket;
    State state = State::kAlive;
    Time since;
  };

  explicit Watch(Events& events) : events_(&events) {}
  Member& member(int index) { return members_[static_cast<size_t>(index)]; }
  void set_timer(bool running);

  Events* events_;
  Fd timer_;
  std::vector<Member> members_;
  int unsettled_ = 0;  // ended or hung up, cause not known yet
};

}  // namespace hvd::transport
