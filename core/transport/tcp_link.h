// SPDX-License-Identifier: Apache-2.0
// The control connection to one rank on another host: messages in frames. A second connection,
// without TLS around it, may carry the payloads of large messages, which would cost more in TLS
// than on the network.
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
  static Result<std::unique_ptr<TcpLink>> start(Events& events, std::unique_ptr<Wire> wire,
                                                int rank);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  // Takes the connections for payloads, one for each way; either both ends have them, or neither.
  Status carry_payloads(bool sending, std::unique_ptr<Wire> wire);
  bool has_payload_wire(bool sending) const {
    return (sending ? payloads_to_ : payloads_from_) != nullptr;
  }
  bool carries_payloads() const { return has_payload_wire(true) && has_payload_wire(false); }

  // Keeps what the socket does not take now. See Fabric::send for `payload`.
  void send(std::span<const std::byte> message, std::span<const std::byte> payload);
  void say_alive();
  void say_goodbye();
  // The socket takes more. True if something moved.
  bool flush();
  bool all_sent() const { return (waiting_.empty() && payloads_.empty()) || deaf_; }
  bool all_received_by_peer() const;  // acknowledged by the other side's system

  // Delivers what is complete already, or with what the connection for payloads has. True if that
  // was anything.
  template <class Deliver>
  bool deliver_complete(Deliver&& deliver) {
    bool any = false;
    while (const std::optional<std::span<const std::byte>> message = next()) {
      any = true;
      deliver(*message);
    }
    return any;
  }

  // Reads what is there, within reason; deliver(bytes) per message. True if anything arrived.
  template <class Deliver>
  bool receive(Deliver&& deliver) {
    bool any = false;
    // Bytes that TLS has decrypted already make no socket readable, so they may not be left for
    // later.
    for (int reads = 0; (reads < kReadsAtOnce || wire_->buffered()) && ending() == Ending::kNone;
         ++reads) {
      const Filled filled = fill();
      any = deliver_complete(deliver) || filled != Filled::kNothing || any;
      if (filled == Filled::kNothing) break;
      // The system says so when there is more.
      if (filled == Filled::kAllThereWas) break;
    }
    return any;
  }
  Ending ending() const;
  // The other end has closed without a word that is still to be read. Asks the system; reads
  // nothing.
  bool is_dead() const;
  // How it ended, to be read after a rank's name.
  std::string cause() const;
  void hang_up();
  // A connection for payloads is broken: says no more, so that the other end ends the link. Its
  // earlier words may still be read.
  void give_up();

 private:
  static constexpr int kReadsAtOnce = 16;

  TcpLink(Events& events, std::unique_ptr<Wire> wire, int rank)
      : events_(events), wire_(std::move(wire)), rank_(rank) {}
  enum class Filled { kNothing, kSome, kAllThereWas };
  Filled fill();
  void want_room(bool wanted);
  std::optional<std::span<const std::byte>> next();
  bool payload_complete();
  void send_payload(std::span<const std::byte> bytes);
  bool flush_payloads();
  void break_off(const Status& why);
  void fall_silent();

  Events& events_;
  const std::unique_ptr<Wire> wire_;
  const int rank_;
  std::deque<std::vector<std::byte>> waiting_;  // frames
  size_t done_ = 0;                             // bytes of the first that are sent
  bool wants_room_ = false;
  bool deaf_ = false;  // sending has failed; earlier words of the rank may still be read
  FrameReader in_;
  Status closed_;  // why nothing more can be read

  std::unique_ptr<Wire> payloads_to_;
  std::unique_ptr<Wire> payloads_from_;
  std::deque<std::vector<std::byte>> payloads_;  // not taken by the socket
  size_t payload_done_ = 0;                      // bytes of the first that are sent
  std::vector<std::byte> joined_;                // the message whose payload is awaited
  size_t joined_size_ = 0;
  size_t joined_filled_ = 0;  // incomplete while less than the size
};

}  // namespace hvd::transport
