// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/attempt.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "rendezvous/store_protocol.h"

namespace hvd::rendezvous {
namespace {

// No reply to a hello is longer: nothing is a value.
constexpr size_t kLongestWelcome = kReplyHeader + 1024;

// Connecting to a port of the range for outgoing connections while nobody listens can meet itself.
bool connected_to_itself(int socket) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
         SocketAddress::of(reinterpret_cast<sockaddr*>(&here), here_size) ==
             SocketAddress::of(reinterpret_cast<sockaddr*>(&there), there_size);
}

}  // namespace

secure::Identity store_identity(const std::string& job, int rank) {
  return {job, 0, rank, 0, "store"};
}

Status Attempt::pending(short wants) {
  wants_ = wants;
  return Status::pending();
}

Status Attempt::step() {
  // A stage that is finished goes on to the next one.
  switch (stage_) {
    case Stage::kStart: return start();
    case Stage::kConnecting: return finish_connecting();
    case Stage::kProving: return prove();
    case Stage::kSending: return send_hello();
    case Stage::kReceiving: return receive_reply();
  }
  return {Code::kInternal, "attempt: no such stage"};
}

Status Attempt::start() {
  Fd socket(::socket(target_.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return io_error("socket", errno);
  const int connected = ::connect(socket.get(), target_.get(), target_.size);
  const int number = connected == 0 ? 0 : errno;
  channel_ = Channel(std::move(socket));
  stage_ = Stage::kConnecting;
  if (number == 0) return begin_talking();
  if (number != EINPROGRESS && number != EINTR) return io_error("connect", number);
  return pending(POLLOUT);
}

Status Attempt::finish_connecting() {
  pollfd watched{channel_.fd(), POLLOUT, 0};
  if (::poll(&watched, 1, 0) <= 0) return pending(POLLOUT);
  int number = 0;
  socklen_t size = sizeof number;
  ::getsockopt(channel_.fd(), SOL_SOCKET, SO_ERROR, &number, &size);
  if (number != 0) return io_error("connect", number);
  return begin_talking();
}

Status Attempt::begin_talking() {
  if (target_.is_unix()) {
    HVD_TRY(check_user(channel_.fd()));
  } else {
    if (connected_to_itself(channel_.fd())) return io_error("connect", ECONNREFUSED);
    prepare_tcp(channel_.fd());
  }
  put_request(message_, {Verb::kHello, who_.rank, who_.job, kGreeting});
  if (!who_.keyring) {
    stage_ = Stage::kSending;
    return send_hello();
  }
  Result<std::unique_ptr<secure::TlsSocket>> tls =
      who_.keyring->connect(channel_.take_socket(), store_identity(who_.job, who_.rank));
  if (!tls.ok()) return tls.status();
  channel_ = Channel(std::move(tls).value());
  stage_ = Stage::kProving;
  return prove();
}

Status Attempt::prove() {
  const Status status = channel_.handshake();
  if (status.code() == Code::kPending) return pending(channel_.wants());
  if (!status.ok()) {
    return {status.code(), "did not prove that it knows the secret of job \"" + who_.job + "\" (" +
                               status.message() + ")"};
  }
  stage_ = Stage::kSending;
  return send_hello();
}

Status Attempt::send_hello() {
  while (at_ < message_.size()) {
    const Result<size_t> sent = channel_.write(std::span(message_).subspan(at_));
    if (sent.status().code() == Code::kPending) return pending(channel_.wants());
    if (!sent.ok()) return sent.status();
    at_ += sent.value();
  }
  message_.assign(kFrameHeader, {});
  at_ = 0;
  stage_ = Stage::kReceiving;
  return receive_reply();
}

Status Attempt::receive_reply() {
  for (;;) {
    if (at_ < message_.size()) {
      const Result<size_t> got = channel_.read(std::span(message_).subspan(at_));
      if (got.status().code() == Code::kPending) return pending(channel_.wants());
      if (!got.ok()) return got.status();
      at_ += got.value();
    } else if (message_.size() == kFrameHeader) {
      uint32_t size = 0;
      std::memcpy(&size, message_.data(), sizeof size);
      if (size < kReplyHeader || size > kLongestWelcome)
        return {Code::kMismatch, "does not speak the protocol of stores"};
      message_.resize(kFrameHeader + size);
    } else {
      const std::optional<Reply> reply = read_reply(std::span(message_).subspan(kFrameHeader));
      if (!reply) return {Code::kMismatch, "does not speak the protocol of stores"};
      return {reply->code, std::string(reply->text)};
    }
  }
}

}  // namespace hvd::rendezvous
