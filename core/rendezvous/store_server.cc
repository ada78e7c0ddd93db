// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store_server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/bell.h"
#include "base/threads.h"
#include "rendezvous/attempt.h"
#include "rendezvous/target.h"

namespace hvd::rendezvous {
namespace {

using namespace std::chrono_literals;

// How long not to accept after the process ran out of descriptors; asking again at once would only
// burn time.
constexpr Duration kAcceptPause = 100ms;
// A flood of connections must not keep the server from its clients.
constexpr int kAcceptsAtOnce = 16;
constexpr unsigned char kTlsHandshake = 0x16;  // first byte of whoever speaks TLS

// Milliseconds for epoll_wait, rounded up so that it does not return just before the time.
int wait_time(Time until) {
  if (until == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60000));
}

Status control(int events, int operation, int fd, uint32_t wanted) {
  epoll_event event{};
  event.events = wanted;
  event.data.fd = fd;
  if (::epoll_ctl(events, operation, fd, &event) != 0) return io_error("epoll_ctl", errno);
  return {};
}

}  // namespace

Result<StoreServer::Handle> StoreServer::start(Setup setup) {
  Fd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake) return io_error("eventfd", errno);
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events) return io_error("epoll_create", errno);
  HVD_TRY(control(events.get(), EPOLL_CTL_ADD, wake.get(), EPOLLIN));
  for (const Fd& listener : setup.listeners)
    HVD_TRY(control(events.get(), EPOLL_CTL_ADD, listener.get(), EPOLLIN));
  Handle server(new StoreServer(std::move(setup), std::move(wake), std::move(events)));
  HVD_TRY(server->start_serving());
  return server;
}

StoreServer::StoreServer(Setup setup, Fd wake, Fd events)
    : setup_(std::move(setup)),
      wake_(std::move(wake)),
      events_(std::move(events)),
      service_(setup_.job) {}

Status StoreServer::start_serving() {
  // Signals are for the threads of the user, so the new thread inherits a full mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const Status started = start_thread([this] { run(); }, "the thread of the store", &thread_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void StoreServer::End::operator()(StoreServer* server) const {
  if (!server->fork_guard_.forked()) delete server;
}

StoreServer::~StoreServer() {
  stopping_ = true;
  ring(wake_.get());
  if (thread_.joinable()) thread_.join();
}

void StoreServer::run() noexcept {
  Time end = kNever;
  while (!stopping_ || (clients_.size() > strangers_.size() && now() < end)) {
    if (stopping_ && end == kNever) {
      end = now() + kFarewell;
      setup_.listeners.clear();
    }
    try {
      look_round(end);
    } catch (...) {
      // Without memory some work may be half done. All connections close, so that nobody waits for
      // an answer that will not come.
      clients_.clear();
      setup_.listeners.clear();
      return;
    }
  }
}

void StoreServer::look_round(Time end) {
  std::array<epoll_event, 64> seen;
  const int count = ::epoll_wait(events_.get(), seen.data(), static_cast<int>(seen.size()),
                                 wait_time(next_time(end)));
  for (int i = 0; i < count; ++i)
    handle(seen[static_cast<size_t>(i)].data.fd, seen[static_cast<size_t>(i)].events);
  // After the clients: an event that is still in the list must not meet a new client with the
  // number of an old one.
  for (const int listener : std::exchange(knocked_at_, {})) accept_from(listener);
  end_of_time();
  for (const int id : service_.take_woken()) serve(id, 0);
}

Time StoreServer::next_time(Time end) const {
  return std::min({end, service_.next_tick(), strangers_.next_overdue(), accept_again_});
}

void StoreServer::handle(int fd, uint32_t events) {
  if (fd == wake_.get()) {
    uint64_t ignored = 0;
    static_cast<void>(!::read(wake_.get(), &ignored, sizeof ignored));
  } else if (clients_.count(fd) != 0) {
    serve(fd, events);
  } else if (std::any_of(setup_.listeners.begin(), setup_.listeners.end(),
                         [&](const Fd& own) { return own.get() == fd; })) {
    knocked_at_.push_back(fd);
  }
}

void StoreServer::end_of_time() {
  const Time time = now();
  if (accept_again_ <= time) {
    accept_again_ = kNever;
    for (const Fd& listener : setup_.listeners) {
      static_cast<void>(control(events_.get(), EPOLL_CTL_MOD, listener.get(), EPOLLIN));
    }
  }
  for (int id; (id = service_.tick(time)) >= 0;) {
    if (strangers_.has(id)) {
      refuse(id, "has not greeted in 5 s");
    } else {
      drop(id);
    }
  }
  while (const std::optional<int> id = strangers_.overdue(time))
    refuse(*id, "has not greeted in 5 s");
}

void StoreServer::accept_from(int listener) {
  for (int count = 0; count < kAcceptsAtOnce && accept_again_ == kNever; ++count) {
    if (!make_room()) return;
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    Fd socket(::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size,
                        SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      welcome(std::move(socket), peer);
      continue;
    }
    const int number = errno;
    if (number == EINTR || number == ECONNABORTED) continue;
    if (number != EMFILE && number != ENFILE && number != ENOMEM && number != ENOBUFS) return;
    // The descriptors of strangers are the reserve for ranks.
    if (const auto stranger = strangers_.least_credible()) {
      refuse(stranger->id, "the process is out of descriptors");
    } else {
      pause_accepting(now() + kAcceptPause);
    }
  }
}

bool StoreServer::make_room() {
  const std::optional<secure::Strangers::Victim> victim = strangers_.victim();
  if (!victim) return true;
  const Time fair = victim->since + secure::Strangers::kGrace;
  if (now() < fair) {
    pause_accepting(fair);
    return false;
  }
  refuse(victim->id, "too many strangers at once");
  return true;
}

// The server looks away from the listeners too, which stay ready and would wake it again and again.
void StoreServer::pause_accepting(Time until) {
  accept_again_ = until;
  for (const Fd& listener : setup_.listeners)
    static_cast<void>(control(events_.get(), EPOLL_CTL_MOD, listener.get(), 0));
}

void StoreServer::welcome(Fd socket, const sockaddr_storage& peer) {
  const int id = socket.get();
  const bool local = peer.ss_family == AF_UNIX;
  const std::string source =
      local ? "this machine"
            : SocketAddress::of(reinterpret_cast<const sockaddr*>(&peer), sizeof peer).host();
  if (const Status user = local ? check_user(id) : Status(); !user.ok())
    return count_refusal(source, user.message());
  if (clients_.size() >= kMaxClients) return count_refusal(source, "has too many clients");
  if (!local) prepare_tcp(id);
  Client& client = clients_[id];
  client.channel = Channel(std::move(socket));
  client.source = source;
  client.since = now();
  strangers_.add(id, source, client.since);
  if (!setup_.keyring) {
    client.stage = Stage::kTalking;
    service_.connect(id, client.since);
  }
  client.watched = EPOLLIN | EPOLLRDHUP;
  if (!control(events_.get(), EPOLL_CTL_ADD, id, client.watched).ok()) return drop(id);
  // The client's first words may be here already, and tell a rank from a stranger that only knocks.
  serve(id, EPOLLIN);
  if (const auto excess = strangers_.excess(source, now()))
    refuse(excess->id, "too many strangers from one address");
}

void StoreServer::serve(int id, uint32_t events) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  const Status status =
      (events & EPOLLERR) != 0 ? Status(Code::kPeerLost, "") : advance(id, client, events);
  if (status.code() == Code::kMismatch) return refuse(id, status.message());
  if (!status.ok() && status.code() != Code::kPending) return drop(id);
  const uint32_t wanted = wanted_events(id, client);
  if (wanted == client.watched) return;
  client.watched = wanted;
  if (!control(events_.get(), EPOLL_CTL_MOD, id, wanted).ok()) drop(id);
}

uint32_t StoreServer::wanted_events(int id, const Client& client) const {
  if (client.stage == Stage::kSilent) return EPOLLIN | EPOLLRDHUP;
  if (client.stage == Stage::kProving)
    return (client.channel.wants() == POLLOUT ? EPOLLOUT : EPOLLIN) | EPOLLRDHUP;
  uint32_t wanted = EPOLLRDHUP;
  if (service_.wants_input(id)) wanted |= EPOLLIN;
  if (!service_.output(id).empty()) wanted |= EPOLLOUT;
  return wanted;
}

Status StoreServer::advance(int id, Client& client, uint32_t events) {
  switch (client.stage) {
    case Stage::kSilent: return begin(id, client);
    case Stage::kProving: return prove(id, client);
    case Stage::kTalking: return talk(id, client, events);
  }
  return {};
}

Status StoreServer::begin(int id, Client& client) {
  unsigned char first = 0;
  const ssize_t got = ::recv(client.channel.fd(), &first, 1, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Status::pending();
  if (got <= 0) return {Code::kPeerLost, "closed the connection"};
  if (first != kTlsHandshake) return {Code::kMismatch, "does not speak TLS"};
  const auto admit = [job = setup_.job, size = setup_.size](const secure::Identity& claimed) {
    return claimed.client < size && claimed.text() == store_identity(job, claimed.client).text();
  };
  Result<std::unique_ptr<secure::TlsSocket>> tls =
      setup_.keyring->accept(client.channel.take_socket(), admit);
  if (!tls.ok()) return tls.status();
  client.channel = Channel(std::move(tls).value());
  client.stage = Stage::kProving;
  return prove(id, client);
}

Status StoreServer::prove(int id, Client& client) {
  const Status status = client.channel.handshake();
  if (status.code() == Code::kPending) {
    // The first message was right, so the client knows the secret, or has recorded somebody who
    // does.
    if (!client.channel.tls()->identity().job.empty()) strangers_.believe(id);
    return status;
  }
  if (status.code() == Code::kMismatch) {
    return {Code::kMismatch, "did not prove that it belongs to job \"" + setup_.job + "\" (" +
                                 status.message() + ")"};
  }
  HVD_TRY(status);
  service_.connect(id, client.since, client.channel.tls()->identity().client);
  client.stage = Stage::kTalking;
  return talk(id, client, EPOLLIN);
}

Status StoreServer::talk(int id, Client& client, uint32_t events) {
  if (!service_.wants_input(id)) {
    if ((events & (EPOLLHUP | EPOLLRDHUP)) != 0) return {Code::kPeerLost, "closed the connection"};
  } else if ((events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP)) != 0) {
    std::array<std::byte, 65536> buffer;
    const Result<size_t> got = client.channel.read(buffer);
    if (!got.ok()) return got.status();
    if (!service_.receive(id, std::span(buffer).first(got.value()), now())) {
      return {Code::kMismatch, "does not speak the protocol of stores"};
    }
  }
  if (strangers_.has(id) && service_.greeted(id)) strangers_.remove(id);
  return send_output(id, client);
}

Status StoreServer::send_output(int id, Client& client) {
  for (auto out = service_.output(id); !out.empty(); out = service_.output(id)) {
    const Result<size_t> sent = client.channel.write(out);
    if (!sent.ok()) return sent.status();
    service_.sent(id, sent.value(), now());
  }
  return {};
}

void StoreServer::count_refusal(const std::string& source, const std::string& why) {
  const uint64_t count = ++refused_;
  // A line at each power of two: a flood of connections is no flood of lines.
  if (setup_.log == nullptr || !std::has_single_bit(count) || !setup_.log->enabled(LogLevel::kWarn))
    return;
  setup_.log->write(LogLevel::kWarn, "rendezvous",
                    setup_.name + ": connection from " + source + " refused: " + why +
                        "; refused so far " + std::to_string(count));
}

void StoreServer::refuse(int id, const std::string& why) {
  count_refusal(clients_.at(id).source, why);
  drop(id);
}

void StoreServer::drop(int id) {
  service_.drop(id);
  strangers_.remove(id);
  // Last: the number may be given out again once it is closed.
  clients_.erase(id);
}

}  // namespace hvd::rendezvous
