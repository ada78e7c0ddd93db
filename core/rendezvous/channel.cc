// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/channel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

namespace hvd::rendezvous {
namespace {

// The meaning of a system call that returned `count`; 0 is the end only when reading.
Result<size_t> outcome(ssize_t count, const char* doing) {
  if (count > 0) return static_cast<size_t>(count);
  if (count == 0) return Status(Code::kPeerLost, "closed the connection");
  if (errno == EAGAIN || errno == EINTR) return Status::pending();
  return io_error(doing, errno);
}

}  // namespace

Status Channel::handshake() {
  if (!tls_) return {};
  Status status = tls_->handshake();
  wants_ = tls_->wants();
  return status;
}

Result<size_t> Channel::read(std::span<std::byte> into) {
  Result<size_t> got = tls_
                           ? tls_->read(into)
                           : outcome(::recv(socket_.get(), into.data(), into.size(), 0), "receive");
  wants_ = tls_ ? tls_->wants() : static_cast<short>(POLLIN);
  return got;
}

Result<size_t> Channel::write(std::span<const std::byte> from) {
  Result<size_t> sent =
      tls_ ? tls_->write(from)
           : outcome(::send(socket_.get(), from.data(), from.size(), MSG_NOSIGNAL), "send");
  wants_ = tls_ ? tls_->wants() : static_cast<short>(POLLOUT);
  return sent;
}

}  // namespace hvd::rendezvous
