// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tcp_store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace hvd::rendezvous {
namespace {

using namespace std::chrono_literals;

// Replies other than to get come at once; a server that takes longer is stopped or gone.
constexpr Duration kReplyWait = 30s;
// A get is timed by the server; this much later the client stops believing in it.
constexpr Duration kGrace = 5s;

Result<sockaddr_in> loopback_address(const TcpUrl& url, const std::string& name) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(url.port);
  const std::string host = url.host == "localhost" ? "127.0.0.1" : url.host;
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1 && (ntohl(address.sin_addr.s_addr) >> 24) == 127) {
    return address;
  }
  return Status(Code::kUnsupported,
                name + ": host \"" + url.host + "\" is not supported by this version; allowed: localhost and 127.x.x.x");
}

Result<std::unique_ptr<TcpServer>> start_server(const sockaddr_in& address, const TcpUrl& url, int rank, Time deadline) {
  for (;;) {
    auto server = TcpServer::start(address, url.job);
    if (server.ok() || server.status().sys_errno() != EADDRINUSE) return server;
    if (rank != 0) return std::unique_ptr<TcpServer>();
    if (now() >= deadline) return server;
    std::this_thread::sleep_for(20ms);
  }
}

// Connecting to a port of the range for outgoing connections while nobody listens can meet itself.
bool connected_to_itself(int socket) {
  sockaddr_in here = {}, there = {};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 && here.sin_port == there.sin_port &&
         here.sin_addr.s_addr == there.sin_addr.s_addr;
}

}  // namespace

Result<std::shared_ptr<TcpStore>> TcpStore::open(const TcpUrl& url, int rank, Time deadline) {
  const std::string name = "store tcp://" + url.host + ":" + std::to_string(url.port) + "/" + url.job;
  const Result<sockaddr_in> address = loopback_address(url, name);
  if (!address.ok()) return address.status();
  std::unique_ptr<TcpServer> server;
  if (rank <= 0) {
    auto started = start_server(address.value(), url, rank, deadline);
    if (!started.ok()) {
      Status status = started.status();
      return Status(status.code(), name + ": " + status.message()).with_errno(status.sys_errno());
    }
    server = std::move(started).value();
  }
  auto store = std::make_shared<TcpStore>(name, std::move(server));
  HVD_TRY(store->connect(address.value(), url, rank, deadline));
  return store;
}

Status TcpStore::error(const std::string& what, int number) const { return io_error(name_ + ": " + what, number); }

Status TcpStore::connect(const sockaddr_in& address, const TcpUrl& url, int rank, Time deadline) {
  Status refusal;  // what the last server that answered said
  for (Duration pause = 5ms;; pause = std::min<Duration>(pause * 2, 50ms)) {
    Status status = connect_once(address, deadline);
    if (status.ok()) {
      const auto answer = ask({Verb::kHello, rank, url.job, kGreeting}, deadline);
      if (answer.ok()) return {};
      status = answer.status();
      // Whoever is there now, the server of this job can follow.
      if (status.code() == Code::kNotFound || status.code() == Code::kAlreadyExists) {
        refusal = Status(Code::kTimeout, name_ + ": " + status.message());
      }
    }
    socket_.reset();
    if (now() >= deadline) return refusal.ok() ? status : refusal;
    std::this_thread::sleep_for(std::min(pause, deadline - now()));
  }
}

Status TcpStore::connect_once(const sockaddr_in& address, Time deadline) {
  socket_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) return error("socket", errno);
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return error("connect", errno);
    HVD_TRY(wait_for(POLLOUT, deadline));
    int number = 0;
    socklen_t size = sizeof number;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &number, &size);
    if (number != 0) return error("connect", number);
  }
  if (connected_to_itself(socket_.get())) return error("connect", ECONNREFUSED);
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {};
}

Status TcpStore::wait_for(short events, Time deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
    pollfd watched = {socket_.get(), events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return error("poll", errno);
    if (now() >= deadline) return {Code::kTimeout, name_ + ": no answer from the server in time"};
  }
}

Status TcpStore::send_all(std::span<const std::byte> bytes, Time deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      HVD_TRY(wait_for(POLLOUT, deadline));
    } else if (errno != EINTR) {
      return error("send", errno);
    }
  }
  return {};
}

Status TcpStore::receive_all(std::span<std::byte> bytes, Time deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (got == 0) {
      return {Code::kIo, name_ + ": the server has closed the connection"};
    } else if (errno == EAGAIN) {
      HVD_TRY(wait_for(POLLIN, deadline));
    } else if (errno != EINTR) {
      return error("receive", errno);
    }
  }
  return {};
}

Result<TcpStore::Answer> TcpStore::ask(const Request& request, Time deadline) {
  if (!socket_) return Status(Code::kIo, name_ + ": the connection is closed");
  message_.clear();
  put_request(message_, request);
  const auto exchange = [&]() -> Status {
    HVD_TRY(send_all(message_, deadline));
    uint32_t size = 0;
    HVD_TRY(receive_all(std::as_writable_bytes(std::span(&size, 1)), deadline));
    if (size > kLargestReply) return {Code::kIo, name_ + ": a reply of " + std::to_string(size) + " bytes is none of ours"};
    message_.resize(size);
    return receive_all(message_, deadline);
  };
  Status status = exchange();
  std::optional<Reply> reply;
  if (status.ok() && !(reply = read_reply(message_))) status = Status(Code::kIo, name_ + ": a reply is malformed");
  if (!status.ok()) {
    // The next reply would be taken for the answer to another request.
    socket_.reset();
    return status;
  }
  if (reply->code != Code::kOk) return Status(reply->code, std::string(reply->text));
  return Answer{reply->number, std::string(reply->text)};
}

Status TcpStore::set(const std::string& key, const std::string& value) {
  HVD_TRY(check_entry(key, value));
  return ask({Verb::kSet, 0, key, value}, now() + kReplyWait).status();
}

Result<std::string> TcpStore::get(const std::string& key, Time deadline) {
  HVD_TRY(check_key(key));
  const Time start = now();
  const Duration wait = deadline == kNever ? Duration(-1) : std::max(deadline - start, Duration::zero());
  Result<Answer> answer = ask({Verb::kGet, wait.count(), key, {}}, deadline_after(deadline, kGrace));
  if (!answer.ok()) return answer.status();
  return std::move(answer).value().text;
}

Result<int64_t> TcpStore::add(const std::string& key, int64_t delta) {
  HVD_TRY(check_key(key));
  const Result<Answer> answer = ask({Verb::kAdd, delta, key, {}}, now() + kReplyWait);
  if (!answer.ok()) return answer.status();
  return answer.value().number;
}

Status TcpStore::remove(const std::string& key) {
  HVD_TRY(check_key(key));
  return ask({Verb::kRemove, 0, key, {}}, now() + kReplyWait).status();
}

}  // namespace hvd::rendezvous
