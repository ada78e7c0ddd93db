// SPDX-License-Identifier: Apache-2.0
// The control connection to one rank on another host: messages in frames. And the data connection of a lane, which is bytes.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/events.h"
#include "transport/fd.h"
#include "transport/stream.h"

namespace hvd::transport {

// Used by the driver only.
class TcpLink {
 public:
  enum class Ending { kNone, kGoodbye, kClosed, kMalformed };

  // `events` outlives the link.
  static Result<std::unique_ptr<TcpLink>> start(Events& events, Fd socket, int rank);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  // Keeps what the socket does not take now.
  void send(std::span<const std::byte> message);
  void say_goodbye();
  // The socket takes more. True if something moved.
  bool flush();
  bool all_sent() const { return waiting_.empty() || deaf_; }
  bool all_received_by_peer() const;  // acknowledged by the other side's system

  // Reads what is there, within reason; deliver(bytes) per message. True if anything arrived.
  template <class Deliver>
  bool receive(Deliver&& deliver) {
    bool any = false;
    for (int reads = 0; reads < kReadsAtOnce && ending_ == Ending::kNone && fill(); ++reads) {
      any = true;
      while (std::optional<std::span<const std::byte>> message = next_message()) deliver(*message);
    }
    return any;
  }
  Ending ending() const { return ending_; }
  void hang_up();

 private:
  static constexpr int kReadsAtOnce = 16;
  struct Frame {
    std::vector<std::byte> bytes;
  };

  TcpLink(Events& events, Fd socket, int rank) : events_(events), socket_(std::move(socket)), rank_(rank) {}
  void enqueue(uint32_t kind, std::span<const std::byte> body);
  bool fill();
  std::optional<std::span<const std::byte>> next_message();
  void want_room(bool wanted);

  Events& events_;
  Fd socket_;
  const int rank_;
  std::deque<Frame> waiting_;
  size_t done_ = 0;  // bytes of waiting_.front() already sent
  bool wants_room_ = false;
  bool deaf_ = false;  // sending has failed; what the rank said before may still be read
  std::vector<std::byte> in_;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  Ending ending_ = Ending::kNone;
};

// Ranks whose data connection broke while in use. Shared by a mesh and its streams; driver only.
using BrokenStreams = std::vector<int>;

class TcpStream final : public Stream {
 public:
  static Result<std::unique_ptr<Stream>> start(Events& events, Fd socket, int rank, std::shared_ptr<BrokenStreams> broken);
  ~TcpStream() override;
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  size_t send_some(std::span<const iovec> pieces) override;
  size_t receive_some(std::span<const iovec> pieces) override;
  bool failed() const override { return failed_; }

 private:
  TcpStream(Events& events, Fd socket, int rank, std::shared_ptr<BrokenStreams> broken)
      : events_(events), socket_(std::move(socket)), rank_(rank), broken_(std::move(broken)) {}
  size_t fail();

  Events& events_;
  Fd socket_;
  const int rank_;
  const std::shared_ptr<BrokenStreams> broken_;
  bool failed_ = false;
};

}  // namespace hvd::transport
