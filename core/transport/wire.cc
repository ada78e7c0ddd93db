// SPDX-License-Identifier: Apache-2.0
#include "transport/wire.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace hvd::transport {
namespace {

constexpr size_t kMostPieces = 1024;               // the system's limit
constexpr size_t kRecordBytes = size_t{16} << 10;  // a record of TLS

Status why(const char* doing, int error) {
  if (error == EAGAIN || error == EINTR) return Status::pending();
  if (error == EPIPE || error == ECONNRESET)
    return Status(Code::kPeerLost, "closed its connection").with_errno(error);
  return io_error(doing, error);
}

class PlainWire final : public Wire {
 public:
  explicit PlainWire(Fd socket) : socket_(std::move(socket)) {}

  Result<size_t> send(std::span<const iovec> pieces) override {
    const msghdr message = message_of(pieces);
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? Result<size_t>(why("send", errno)) : static_cast<size_t>(sent);
  }
  Result<size_t> receive(std::span<const iovec> pieces) override {
    msghdr message = message_of(pieces);
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (got == 0) return Status(Code::kPeerLost, "closed its connection");
    return got < 0 ? Result<size_t>(why("receive", errno)) : static_cast<size_t>(got);
  }
  bool buffered() const override { return false; }
  Status failure() const override { return {}; }
  int fd() const override { return socket_.get(); }

 private:
  static msghdr message_of(std::span<const iovec> pieces) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = std::min(pieces.size(), kMostPieces);
    return message;
  }

  const Fd socket_;
};

class TlsWire final : public Wire {
 public:
  explicit TlsWire(std::unique_ptr<secure::TlsSocket> socket) : socket_(std::move(socket)) {
    socket_->read_ahead();
  }

  // Small pieces share a record; a record that did not go out is offered again as it was.
  Result<size_t> send(std::span<const iovec> pieces) override {
    size_t total = 0;
    for (size_t at = 0; at < pieces.size();) {
      std::span<const std::byte> record = bytes_of(pieces[at]);
      size_t used = 1;
      if (record.size() < kRecordBytes && at + 1 < pieces.size()) {
        used = gather(pieces.subspan(at));
        record = scratch_;
      }
      if (!record.empty()) {
        // A pending record is encrypted already: bytes offered in its place may be longer, never
        // shorter. They are not shorter, because the pieces from its first byte on are the same as
        // before.
        const Result<size_t> sent = socket_->write(record);
        if (!sent.ok())
          return total != 0 && sent.status().code() == Code::kPending ? Result<size_t>(total)
                                                                      : sent;
        total += sent.value();
        if (sent.value() < record.size()) return total;
      }
      at += used;
    }
    return total;
  }

  Result<size_t> receive(std::span<const iovec> pieces) override {
    bool again = true;
    return fill_pieces(pieces, failure_, [&](std::span<std::byte> into) {
      if (!again) return Result<size_t>(Status::pending());
      Result<size_t> got = socket_->read(into);
      // Asking once more would only bring the system's answer that there is nothing.
      again = socket_->buffered() || !socket_->drained();
      return got;
    });
  }

  bool buffered() const override { return socket_->buffered() || !failure_.ok(); }
  Status failure() const override { return failure_; }
  int fd() const override { return socket_->fd(); }

 private:
  static std::span<const std::byte> bytes_of(const iovec& piece) {
    return {static_cast<const std::byte*>(piece.iov_base), piece.iov_len};
  }

  // Fills scratch_ with whole pieces up to a record; returns how many.
  size_t gather(std::span<const iovec> pieces) {
    scratch_.clear();
    size_t used = 0;
    while (used < pieces.size() &&
           (used == 0 || scratch_.size() + pieces[used].iov_len <= kRecordBytes)) {
      const std::span<const std::byte> bytes = bytes_of(pieces[used++]);
      scratch_.insert(scratch_.end(), bytes.begin(), bytes.end());
    }
    return used;
  }

  const std::unique_ptr<secure::TlsSocket> socket_;
  std::vector<std::byte> scratch_;
  Status failure_;
};

}  // namespace

std::unique_ptr<Wire> plain_wire(Fd socket) {
  return std::make_unique<PlainWire>(std::move(socket));
}
std::unique_ptr<Wire> tls_wire(std::unique_ptr<secure::TlsSocket> socket) {
  return std::make_unique<TlsWire>(std::move(socket));
}

}  // namespace hvd::transport
