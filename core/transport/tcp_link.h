// SPDX-License-Identifier: Apache-2.0
// The control connection to one rank on another host: messages in frames.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/events.h"
#include "transport/frames.h"
#include "transport/wire.h"

namespace hvd::transport {

// Used by the driver only.
class TcpLink {
 public:
  enum class Ending { kNone, kGoodbye, kClosed, kMalformed };

  // `events` outlives the link.
  static Result<std::unique_ptr<TcpLink>> start(Events& events, std::unique_ptr<Wire> wire, int rank);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  // Keeps what the socket does not take now.
  void send(std::span<const std::byte> message);
  void say_alive();
  void say_goodbye();
  // The socket takes more. True if something moved.
  bool flush();
  bool all_sent() const { return waiting_.empty() || deaf_; }
  bool all_received_by_peer() const;  // acknowledged by the other side's system

  // Reads what is there, within reason; deliver(bytes) per message. True if anything arrived.
  template <class Deliver>
  bool receive(Deliver&& deliver) {
    bool any = false;
    // What TLS has decrypted already makes no socket readable, so it may not be left for later.
    for (int reads = 0; (reads < kReadsAtOnce || wire_->buffered()) && ending() == Ending::kNone; ++reads) {
      const Filled filled = fill();
      if (filled == Filled::kNothing) break;
      any = true;
      while (std::optional<std::span<const std::byte>> message = in_.next()) deliver(*message);
      // The system says so when there is more.
      if (filled == Filled::kAllThereWas) break;
    }
    return any;
  }
  Ending ending() const;
  // The other end has closed without a word that is still to be read. Asks the system; reads nothing.
  bool is_dead() const;
  // How it ended, to be read after a rank's name.
  std::string cause() const;
  void hang_up();

 private:
  static constexpr int kReadsAtOnce = 16;
  TcpLink(Events& events, std::unique_ptr<Wire> wire, int rank) : events_(events), wire_(std::move(wire)), rank_(rank) {}
  enum class Filled { kNothing, kSome, kAllThereWas };
  Filled fill();
  void want_room(bool wanted);

  Events& events_;
  const std::unique_ptr<Wire> wire_;
  const int rank_;
  std::deque<std::vector<std::byte>> waiting_;  // frames
  size_t done_ = 0;                             // bytes of the first that are sent
  bool wants_room_ = false;
  bool deaf_ = false;  // sending has failed; what the rank said before may still be read
  FrameReader in_;
  Status closed_;  // why nothing more can be read
};

}  // namespace hvd::transport
