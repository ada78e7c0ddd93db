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

}  // namespace

Result<std::unique_ptr<TcpLink>> TcpLink::start(Events& events, std::unique_ptr<Wire> wire, int rank) {
  const int fd = wire->fd();
  std::unique_ptr<TcpLink> link(new TcpLink(events, std::move(wire), rank));
  HVD_TRY(events.add(fd, EPOLLIN, EventKind::kControl, static_cast<uint32_t>(rank)));
  return link;
}

TcpLink::~TcpLink() {
  // Not left to close(): a forked child may keep the socket open, and with it its place in the epoll set.
  events_.remove(wire_->fd());
}

void TcpLink::want_room(bool wanted) {
  if (wanted == wants_room_) return;
  wants_room_ = wanted;
  events_.change(wire_->fd(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, EventKind::kControl, static_cast<uint32_t>(rank_));
}

void TcpLink::send(std::span<const std::byte> message) {
  if (deaf_) return;
  waiting_.push_back(make_frame(FrameKind::kMessage, message));
  if (!wants_room_) flush();
}

void TcpLink::say_alive() {
  // What waits to be sent will say so.
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
    for (auto frame = waiting_.begin(); frame != waiting_.end() && count < pieces.size(); ++frame, ++count) {
      const size_t skip = count == 0 ? done_ : 0;
      pieces[count] = {frame->data() + skip, frame->size() - skip};
    }
    const Result<size_t> sent = wire_->send(std::span(pieces).first(count));
    if (sent.status().code() == Code::kPending) break;
    if (!sent.ok()) {
      // The reason comes by the reading side, after what the rank said last.
      deaf_ = true;
      waiting_.clear();
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
  return moved;
}

bool TcpLink::all_received_by_peer() const {
  int unacknowledged = 0;
  if (deaf_ || ::ioctl(wire_->fd(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0) return true;
  // After a reset the count stays for ever, and nobody is there to acknowledge.
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(wire_->fd(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE;
}

TcpLink::Filled TcpLink::fill() {
  const std::span<std::byte> room = in_.room();
  const iovec piece{room.data(), room.size()};
  const Result<size_t> got = wire_->receive(std::span(&piece, 1));
  if (got.ok()) {
    in_.filled(got.value());
    return got.value() < room.size() && !wire_->buffered() ? Filled::kAllThereWas : Filled::kSome;
  }
  if (got.status().code() != Code::kPending) closed_ = got.status();
  return Filled::kNothing;
}

TcpLink::Ending TcpLink::ending() const {
  if (in_.ending() == FrameReader::Ending::kGoodbye) return Ending::kGoodbye;
  if (in_.ending() == FrameReader::Ending::kMalformed) return Ending::kMalformed;
  return closed_.ok() ? Ending::kNone : Ending::kClosed;
}

std::string TcpLink::cause() const {
  if (ending() == Ending::kMalformed) return "sent a malformed message";
  // A reset is how the system closes a connection with unread input.
  return closed_.ok() || closed_.code() == Code::kPeerLost ? "closed its connection" : "was lost: " + closed_.message();
}

bool TcpLink::is_dead() const {
  char byte = 0;
  const ssize_t got = ::recv(wire_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

void TcpLink::hang_up() { ::shutdown(wire_->fd(), SHUT_RDWR); }

}  // namespace hvd::transport
