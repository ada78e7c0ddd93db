// SPDX-License-Identifier: Apache-2.0
// Connecting to ranks that may be reached at several addresses: all are tried at once, and the
// first at which the rank proves itself is chosen. A stranger may answer at an address that several
// hosts have (a bridge of containers), and proves nothing.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "transport/greeting.h"

namespace hvd::transport {

// Used by one thread.
class Calls {
 public:
  struct Connection {
    Call call;
    SocketAddress address;
    std::unique_ptr<Wire> wire;
  };

  // `credentials` outlives the calls.
  explicit Calls(const Credentials& credentials) : credentials_(credentials) {}

  void add(const Call& call, std::vector<SocketAddress> candidates);

  // Runs a round: waits for the sockets, and `also` (-1: none) to become readable, until the
  // deadline at the latest, and takes the steps that are due. An error is the first call that has
  // no hope left: `connecting to 10.0.0.1:7777: connection refused (111)`, with the called rank as
  // rank().
  Status step(int also, Time deadline);
  bool done() const { return open_ == 0; }
  std::vector<Connection> take_connections() { return std::exchange(connections_, {}); }
  // At the deadline: the outcome of every address of the first call that is still open.
  Status timed_out() const;

 private:
  struct Attempt {
    SocketAddress address;
    Time begins{};
    std::unique_ptr<Greeting> greeting;  // null before it begins and after it has failed
    Status failure;                      // ok: not failed
  };
  struct Target {
    Call call;
    std::vector<Attempt> attempts;
    int rounds = 0;  // in which all attempts failed
    bool closed = false;
  };

  void plan(Target& target, Time from);
  void move(Target& target);
  void begin(Target& target, Attempt& attempt);
  Status after_failures(Target& target);
  Time next_begin() const;
  std::string story(const Target& target) const;

  const Credentials& credentials_;
  std::vector<Target> targets_;
  std::vector<Connection> connections_;
  std::vector<pollfd> watched_;
  size_t open_ = 0;
};

}  // namespace hvd::transport
