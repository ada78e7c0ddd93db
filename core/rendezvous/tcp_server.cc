// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tcp_server.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <vector>

namespace hvd::rendezvous {
namespace {

using namespace std::chrono_literals;

// How long not to accept after the process ran out of descriptors; asking again at once would only burn time.
constexpr Duration kAcceptPause = 100ms;

// Milliseconds for poll, rounded up so that it does not return just before the time.
int poll_time(Time until) {
  if (until == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60000));
}

}  // namespace

Result<std::unique_ptr<TcpServer>> TcpServer::start(const sockaddr_in& address, const std::string& job) {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener) return io_error("socket", errno);
  // Lets a job start while connections of an earlier one on the port are still being forgotten.
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in bound = address;
  socklen_t size = sizeof bound;
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return io_error("bind", errno);
  }
  if (::listen(listener.get(), static_cast<int>(kMaxClients)) != 0) return io_error("listen", errno);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return io_error("getsockname", errno);
  }
  Fd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake) return io_error("eventfd", errno);
  return std::make_unique<TcpServer>(std::move(listener), std::move(wake), ntohs(bound.sin_port), job);
}

TcpServer::TcpServer(Fd listener, Fd wake, uint16_t port, const std::string& job)
    : listener_(std::move(listener)), wake_(std::move(wake)), port_(port), service_(job) {
  // Signals are for the threads of the user, never for this one: it inherits a full mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::make_unique<std::thread>([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TcpServer::~TcpServer() {
  if (fork_guard_.forked()) {
    // The thread stayed in the parent: joining would wait for ever, and destroying the object would end the process.
    static_cast<void>(thread_.release());
    return;
  }
  stopping_ = true;
  const uint64_t one = 1;
  // Cannot fail: the counter is far from full.
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
  thread_->join();
}

void TcpServer::run() {
  Time end = kNever;
  std::vector<pollfd> watched;
  while (!stopping_ || (!clients_.empty() && now() < end)) {
    if (stopping_ && end == kNever) end = now() + kFarewell;
    if (stopping_) listener_.reset();
    wait(watched, end);
    for (const pollfd& seen : watched) {
      if (seen.revents == 0) continue;
      if (seen.fd == listener_.get()) {
        accept_all();
      } else if (seen.fd == wake_.get()) {
        uint64_t ignored = 0;
        static_cast<void>(!::read(wake_.get(), &ignored, sizeof ignored));
      } else if (!serve(seen.fd, seen.revents)) {
        drop(seen.fd);
      }
    }
    for (int client; (client = service_.tick(now())) >= 0;) drop(client);
  }
}

void TcpServer::wait(std::vector<pollfd>& watched, Time limit) {
  watched.clear();
  watched.push_back({wake_.get(), POLLIN, 0});
  Time until = std::min(limit, service_.next_tick());
  if (listener_ && now() >= accept_again_) {
    watched.push_back({listener_.get(), POLLIN, 0});
  } else if (listener_) {
    until = std::min(until, accept_again_);
  }
  for (const auto& [number, fd] : clients_) {
    short events = POLLRDHUP;
    if (service_.wants_input(number)) events |= POLLIN;
    if (!service_.output(number).empty()) events |= POLLOUT;
    watched.push_back({number, events, 0});
  }
  if (::poll(watched.data(), watched.size(), poll_time(until)) < 0) {
    for (pollfd& entry : watched) entry.revents = 0;  // unspecified after an error
  }
}

void TcpServer::accept_all() {
  for (;;) {
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) accept_again_ = now() + kAcceptPause;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (clients_.size() >= kMaxClients) continue;  // closes it
    const int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int number = client.get();
    service_.connect(number, now());
    clients_.emplace(number, std::move(client));
  }
}

// False: the client has gone or is to go.
bool TcpServer::serve(int client, short events) {
  if ((events & (POLLERR | POLLNVAL)) != 0) return false;
  if ((events & POLLIN) != 0) {
    std::array<std::byte, 65536> buffer;
    const ssize_t got = ::recv(client, buffer.data(), buffer.size(), 0);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (!service_.receive(client, std::span(buffer).first(static_cast<size_t>(got)), now())) return false;
  } else if ((events & (POLLHUP | POLLRDHUP)) != 0) {
    return false;  // and nothing of it is left to read
  }
  const std::span<const std::byte> out = service_.output(client);
  if (out.empty()) return true;
  const ssize_t sent = ::send(client, out.data(), out.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  service_.sent(client, static_cast<size_t>(sent), now());
  return true;
}

void TcpServer::drop(int client) {
  // In this order: the number may be given out again once it is closed.
  service_.drop(client);
  clients_.erase(client);
}

}  // namespace hvd::rendezvous
