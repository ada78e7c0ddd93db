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
#include <cstring>

#include "transport/ring.h"

namespace hvd::transport {
namespace {

constexpr uint32_t kMessage = 0;
constexpr uint32_t kGoodbye = 1;
constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kFramesAtOnce = 64;
constexpr size_t kMostPieces = 1024;  // the system's limit

struct FrameHeader {
  uint32_t bytes;
  uint32_t kind;
};

bool try_again(int error) { return error == EAGAIN || error == EINTR; }

ssize_t send_pieces(int socket, const iovec* pieces, size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Result<std::unique_ptr<TcpLink>> TcpLink::start(Events& events, Fd socket, int rank) {
  const int fd = socket.get();
  std::unique_ptr<TcpLink> link(new TcpLink(events, std::move(socket), rank));
  HVD_TRY(events.add(fd, EPOLLIN, EventKind::kControl, static_cast<uint32_t>(rank)));
  return link;
}

TcpLink::~TcpLink() {
  // Not left to close(): a forked child may keep the socket open, and with it its place in the epoll set.
  if (socket_) events_.remove(socket_.get());
}

void TcpLink::want_room(bool wanted) {
  if (wanted == wants_room_) return;
  wants_room_ = wanted;
  events_.change(socket_.get(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, EventKind::kControl, static_cast<uint32_t>(rank_));
}

void TcpLink::enqueue(uint32_t kind, std::span<const std::byte> body) {
  const FrameHeader header{static_cast<uint32_t>(body.size()), kind};
  Frame frame;
  frame.bytes.resize(sizeof header + body.size());
  std::memcpy(frame.bytes.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(frame.bytes.data() + sizeof header, body.data(), body.size());
  waiting_.push_back(std::move(frame));
}

void TcpLink::send(std::span<const std::byte> message) {
  if (deaf_) return;
  enqueue(kMessage, message);
  if (!wants_room_) flush();
}

void TcpLink::say_goodbye() {
  enqueue(kGoodbye, {});
  flush();
}

bool TcpLink::flush() {
  bool moved = false;
  while (!waiting_.empty() && !deaf_) {
    std::array<iovec, kFramesAtOnce> pieces;
    size_t count = 0;
    for (auto frame = waiting_.begin(); frame != waiting_.end() && count < pieces.size(); ++frame, ++count) {
      const size_t skip = count == 0 ? done_ : 0;
      pieces[count] = {frame->bytes.data() + skip, frame->bytes.size() - skip};
    }
    const ssize_t sent = send_pieces(socket_.get(), pieces.data(), count);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      // The reason comes by the reading side, after what the rank said last.
      deaf_ = true;
      waiting_.clear();
      break;
    }
    moved = true;
    done_ += static_cast<size_t>(sent);
    while (!waiting_.empty() && done_ >= waiting_.front().bytes.size()) {
      done_ -= waiting_.front().bytes.size();
      waiting_.pop_front();
    }
  }
  want_room(!waiting_.empty());
  return moved;
}

bool TcpLink::all_received_by_peer() const {
  int unacknowledged = 0;
  if (deaf_ || ::ioctl(socket_.get(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0) return true;
  // After a reset the count stays for ever, and nobody is there to acknowledge.
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_CLOSE;
}

bool TcpLink::fill() {
  if (in_begin_ == in_end_) {
    in_begin_ = in_end_ = 0;
    if (in_.size() > 4 * kReadBytes) in_ = {};
  }
  if (in_.size() - in_end_ < kReadBytes) {
    std::copy(in_.begin() + static_cast<ptrdiff_t>(in_begin_), in_.begin() + static_cast<ptrdiff_t>(in_end_), in_.begin());
    in_end_ -= in_begin_;
    in_begin_ = 0;
    if (in_.size() - in_end_ < kReadBytes) in_.resize(std::max(in_end_ + kReadBytes, in_.size() * 2));
  }
  const ssize_t got = ::recv(socket_.get(), in_.data() + in_end_, in_.size() - in_end_, MSG_DONTWAIT);
  if (got < 0 && try_again(errno)) return false;
  if (got <= 0) {
    ending_ = Ending::kClosed;
    return false;
  }
  in_end_ += static_cast<size_t>(got);
  return true;
}

std::optional<std::span<const std::byte>> TcpLink::next_message() {
  const size_t available = in_end_ - in_begin_;
  FrameHeader header;
  if (ending_ != Ending::kNone || available < sizeof header) return std::nullopt;
  std::memcpy(&header, in_.data() + in_begin_, sizeof header);
  if (header.kind > kGoodbye || header.bytes > kMaxMessage) {
    ending_ = Ending::kMalformed;
    return std::nullopt;
  }
  if (available < sizeof header + header.bytes) return std::nullopt;
  const std::byte* body = in_.data() + in_begin_ + sizeof header;
  in_begin_ += sizeof header + header.bytes;
  if (header.kind == kGoodbye) {
    ending_ = Ending::kGoodbye;
    return std::nullopt;
  }
  return std::span(body, header.bytes);
}

void TcpLink::hang_up() { ::shutdown(socket_.get(), SHUT_RDWR); }

Result<std::unique_ptr<Stream>> TcpStream::start(Events& events, Fd socket, int rank, std::shared_ptr<BrokenStreams> broken) {
  const int fd = socket.get();
  std::unique_ptr<Stream> stream(new TcpStream(events, std::move(socket), rank, std::move(broken)));
  // Edge triggered: data that its program does not want yet must not keep the rank awake.
  HVD_TRY(events.add(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, EventKind::kStream, static_cast<uint32_t>(rank)));
  return stream;
}

TcpStream::~TcpStream() { events_.remove(socket_.get()); }

size_t TcpStream::fail() {
  failed_ = true;
  broken_->push_back(rank_);
  return 0;
}

size_t TcpStream::send_some(std::span<const iovec> pieces) {
  if (failed_ || pieces.empty()) return 0;
  const ssize_t sent = send_pieces(socket_.get(), pieces.data(), std::min(pieces.size(), kMostPieces));
  if (sent < 0) return try_again(errno) ? 0 : fail();
  return static_cast<size_t>(sent);
}

size_t TcpStream::receive_some(std::span<const iovec> pieces) {
  const bool wanted = std::any_of(pieces.begin(), pieces.end(), [](const iovec& piece) { return piece.iov_len != 0; });
  if (failed_ || !wanted) return 0;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = std::min(pieces.size(), kMostPieces);
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  if (got < 0) return try_again(errno) ? 0 : fail();
  return got == 0 ? fail() : static_cast<size_t>(got);
}

}  // namespace hvd::transport
