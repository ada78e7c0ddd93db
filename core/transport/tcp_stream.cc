// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_stream.h"

#include <algorithm>

namespace hvd::transport {
namespace {

bool holds_bytes(std::span<const iovec> pieces) {
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const iovec& piece) { return piece.iov_len != 0; });
}

}  // namespace

Result<std::unique_ptr<Stream>> TcpStream::start(Events& events, std::unique_ptr<Wire> wire,
                                                 int rank, std::shared_ptr<BrokenStreams> broken) {
  const int fd = wire->fd();
  std::unique_ptr<Stream> stream(new TcpStream(events, std::move(wire), rank, std::move(broken)));
  // Edge triggered: data that its program does not want yet must not keep the rank awake.
  HVD_TRY(events.add(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, EventKind::kStream,
                     static_cast<uint32_t>(rank)));
  return stream;
}

TcpStream::~TcpStream() { events_.remove(wire_->fd()); }

size_t TcpStream::moved(const Result<size_t>& result) {
  if (result.ok()) return result.value();
  if (result.status().code() != Code::kPending) {
    failed_ = true;
    broken_->add(rank_, result.status().code() == Code::kPeerLost
                            ? "closed its connection"
                            : "was lost: " + result.status().message());
  }
  return 0;
}

size_t TcpStream::send_some(std::span<const iovec> pieces) {
  return failed_ || !holds_bytes(pieces) ? 0 : moved(wire_->send(pieces));
}

size_t TcpStream::receive_some(std::span<const iovec> pieces) {
  if (failed_ || !holds_bytes(pieces)) return 0;
  const size_t bytes = moved(wire_->receive(pieces));
  if (const Status why = wire_->failure(); !why.ok()) moved(why);
  return bytes;
}

}  // namespace hvd::transport
