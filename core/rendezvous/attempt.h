// SPDX-License-Identifier: Apache-2.0
// One attempt to reach a store's server at one address: connect, prove to each other that both know
// the secret, greet, hear that the greeting is welcome. Nothing here blocks.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "rendezvous/channel.h"
#include "rendezvous/target.h"
#include "secure/tls.h"

namespace hvd::rendezvous {

// The rank that asks to be served.
struct ClientInfo {
  std::string job;
  int rank = -1;
  std::shared_ptr<const secure::Keyring> keyring;  // null: plain
};

// The identity from which both ends of a store's connection make its key.
secure::Identity store_identity(const std::string& job, int rank);

class Attempt {
 public:
  // Longer takes nobody who is there.
  static constexpr Duration kTime = std::chrono::seconds(5);

  // `who` outlives the attempt.
  Attempt(const Target& target, const ClientInfo& who) : target_(target), who_(who) {}

  // Takes the next steps. Ok: the server has welcomed this rank, take() the connection. kPending:
  // call again when fd() is ready for wants(). kNotFound and kAlreadyExists: a server of another
  // job answers; kVersion: the server of this job answers, but its version cannot serve this rank.
  // Any other status tells another failure.
  Status step();
  int fd() const { return channel_.fd(); }
  short wants() const { return wants_; }
  // Whether somebody has accepted the connection.
  bool talks() const { return stage_ > Stage::kConnecting; }
  Channel take() { return std::move(channel_); }

 private:
  enum class Stage { kStart, kConnecting, kProving, kSending, kReceiving };

  Status start();
  Status finish_connecting();
  Status begin_talking();
  Status prove();
  Status send_hello();
  Status receive_reply();
  Status pending(short wants);

  const Target& target_;
  const ClientInfo& who_;
  Channel channel_;
  Stage stage_ = Stage::kStart;
  short wants_ = 0;
  Bytes message_;  // the hello, then the reply
  size_t at_ = 0;  // bytes of it that are done
};

}  // namespace hvd::rendezvous
