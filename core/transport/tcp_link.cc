// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_link.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace hvd::transport {
namespace {

constexpr size_t kFramesAtOnce = 64;
// From here on a second system call costs less than TLS does.
constexpr size_t kApart = 8192 + 1;

bool all_acknowledged(int fd) {
  int unacknowledged = 0;
  if (::ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0) return true;
  // After a reset the count stays for ever, and nobody is there to acknowledge.
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE;
}

}  // namespace

Result<std::unique_ptr<TcpLink>> TcpLink::start(Events& events, std::unique_ptr<Wire> wire,
                                                int rank) {
  const int fd = wire->fd();
  std::unique_ptr<TcpLink> link(new TcpLink(events, std::move(wire), rank));
  HVD_TRY(events.add(fd, EPOLLIN, EventKind::kControl, static_cast<uint32_t>(rank)));
  return link;
}

TcpLink::~TcpLink() {
  // Not left to close(): a forked child may keep the socket open, and with it its place in the
  // epoll set.
  events_.remove(wire_->fd());
  for (const auto& wire : {payloads_to_.get(), payloads_from_.get()}) {
    if (wire != nullptr) events_.remove(wire->fd());
  }
}

Status TcpLink::carry_payloads(bool sending, std::unique_ptr<Wire> wire) {
  auto& kept = sending ? payloads_to_ : payloads_from_;
  kept = std::move(wire);
  // By edges: a payload that is here before its message may stay in the socket without waking
  // anybody.
  const uint32_t news = (sending ? EPOLLOUT : EPOLLIN) | EPOLLET;
  return events_.add(kept->fd(), news, EventKind::kPayload, static_cast<uint32_t>(rank_));
}

void TcpLink::want_room(bool wanted) {
  if (wanted == wants_room_) return;
  wants_room_ = wanted;
  events_.change(wire_->fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, EventKind::kControl,
                 static_cast<uint32_t>(rank_));
}

void TcpLink::send(std::span<const std::byte> message, std::span<const std::byte> payload) {
  if (deaf_) return;
  const bool split = payload.size() >= kApart && carries_payloads();
  waiting_.push_back(split ? make_split_frame(message, payload.size())
                           : make_frame(FrameKind::kMessage, message, payload));
  if (!wants_room_) flush();
  if (split && !deaf_) send_payload(payload);
}

void TcpLink::send_payload(std::span<const std::byte> bytes) {
  size_t sent = 0;
  while (payloads_.empty() && sent < bytes.size()) {
    const iovec piece{const_cast<std::byte*>(bytes.data()) + sent, bytes.size() - sent};
    const Result<size_t> taken = payloads_to_->send(std::span(&piece, 1));
    if (taken.status().code() == Code::kPending) break;
    if (!taken.ok()) return give_up();
    sent += taken.value();
  }
  if (sent < bytes.size())
    payloads_.emplace_back(bytes.begin() + static_cast<ptrdiff_t>(sent), bytes.end());
}

bool TcpLink::flush_payloads() {
  bool moved = false;
  while (!payloads_.empty() && !deaf_) {
    const std::vector<std::byte>& first = payloads_.front();
    const iovec piece{const_cast<std::byte*>(first.data()) + payload_done_,
                      first.size() - payload_done_};
    const Result<size_t> sent = payloads_to_->send(std::span(&piece, 1));
    if (sent.status().code() == Code::kPending) break;
    if (!sent.ok()) {
      give_up();
      break;
    }
    moved = true;
    payload_done_ += sent.value();
    if (payload_done_ < first.size()) continue;
    payload_done_ = 0;
    payloads_.pop_front();
  }
  return moved;
}

void TcpLink::give_up() {
  fall_silent();
  ::shutdown(wire_->fd(), SHUT_WR);
}

void TcpLink::break_off(const Status& why) {
  if (closed_.ok()) closed_ = why;
  hang_up();  // the rest is read, and then the end is seen
}

void TcpLink::fall_silent() {
  // The reason comes by the reading side, after what the rank said last.
  deaf_ = true;
  waiting_.clear();
  payloads_.clear();
}

void TcpLink::say_alive() {
  // Messages that wait to be sent will say so.
  if (deaf_ || !waiting_.empty()) return;
  waiting_.push_back(make_frame(FrameKind::kAlive, {}));
  flush();
}

void TcpLink::say_goodbye() {
  waiting_.push_back(make_frame(FrameKind::kGoodbye, {}));
  flush();
}

bool TcpLink::flush() {
  bool moved = false;
  while (!waiting_.empty() && !deaf_) {
    std::array<iovec, kFramesAtOnce> pieces;
    size_t count = 0;
    for (auto frame = waiting_.begin(); frame != waiting_.end() && count < pieces.size();
         ++frame, ++count) {
      const size_t skip = count == 0 ? done_ : 0;
      pieces[count] = {frame->data() + skip, frame->size() - skip};
    }
    const Result<size_t> sent = wire_->send(std::span(pieces).first(count));
    if (sent.status().code() == Code::kPending) break;
    if (!sent.ok()) {
      // The reading side knows only of the rank's leaving, not of another reason.
      if (sent.status().code() != Code::kPeerLost) break_off(sent.status());
      fall_silent();
      break;
    }
    moved = true;
    done_ += sent.value();
    while (!waiting_.empty() && done_ >= waiting_.front().size()) {
      done_ -= waiting_.front().size();
      waiting_.pop_front();
    }
  }
  want_room(!waiting_.empty());
  return flush_payloads() || moved;
}

bool TcpLink::all_received_by_peer() const {
  return deaf_ ||
         (all_acknowledged(wire_->fd()) && (!payloads_to_ || all_acknowledged(payloads_to_->fd())));
}

TcpLink::Filled TcpLink::fill() {
  const std::span<std::byte> room = in_.room();
  const iovec piece{room.data(), room.size()};
  const Result<size_t> got = wire_->receive(std::span(&piece, 1));
  if (got.ok()) {
    in_.filled(got.value());
    return got.value() < room.size() && !wire_->buffered() ? Filled::kAllThereWas : Filled::kSome;
  }
  if (got.status().code() != Code::kPending && closed_.ok()) closed_ = got.status();
  return Filled::kNothing;
}

// The next message that is complete. Messages behind one whose payload is awaited wait, too.
std::optional<std::span<const std::byte>> TcpLink::next() {
  if (joined_filled_ == joined_size_) {
    const std::optional<FrameReader::Message> message = in_.next();
    if (!message) return std::nullopt;
    if (message->apart == 0) return message->bytes;
    joined_filled_ = message->bytes.size();
    joined_size_ = joined_filled_ + message->apart;
    if (joined_.size() < joined_size_) joined_.resize(joined_size_);
    std::copy(message->bytes.begin(), message->bytes.end(), joined_.begin());
  }
  if (!payload_complete()) return std::nullopt;
  return std::span(joined_).first(joined_size_);
}

bool TcpLink::payload_complete() {
  if (!payloads_from_) {
    closed_ = Status(Code::kIo, "payload without a connection for it");
    return false;
  }
  while (joined_filled_ < joined_size_) {
    const iovec piece{joined_.data() + joined_filled_, joined_size_ - joined_filled_};
    const Result<size_t> got = payloads_from_->receive(std::span(&piece, 1));
    if (!got.ok()) {
      if (got.status().code() != Code::kPending && closed_.ok()) closed_ = got.status();
      return false;
    }
    joined_filled_ += got.value();
  }
  return true;
}

TcpLink::Ending TcpLink::ending() const {
  if (in_.ending() == FrameReader::Ending::kGoodbye) return Ending::kGoodbye;
  if (in_.ending() == FrameReader::Ending::kMalformed) return Ending::kMalformed;
  return closed_.ok() ? Ending::kNone : Ending::kClosed;
}

std::string TcpLink::cause() const {
  if (ending() == Ending::kMalformed) return "sent a malformed message";
  // A reset is how the system closes a connection with unread input.
  return closed_.ok() || closed_.code() == Code::kPeerLost ? "closed its connection"
                                                           : "was lost: " + closed_.message();
}

bool TcpLink::is_dead() const {
  char byte = 0;
  const ssize_t got = ::recv(wire_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

void TcpLink::hang_up() {
  ::shutdown(wire_->fd(), SHUT_RDWR);
  for (const auto& wire : {payloads_to_.get(), payloads_from_.get()}) {
    if (wire != nullptr) ::shutdown(wire->fd(), SHUT_RDWR);
  }
}

}  // namespace hvd::transport
