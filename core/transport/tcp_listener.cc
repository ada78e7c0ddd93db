// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_listener.h"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <utility>

namespace hvd::transport {
namespace {

// A flood of connections must not keep the driver from its work.
constexpr int kAcceptsAtOnce = 16;
constexpr Duration kLookAtStrangers = std::chrono::seconds(1);
// How long not to accept after the process ran out of descriptors; asking again at once would only
// burn time.
constexpr Duration kNoDescriptorsPause = std::chrono::milliseconds(100);

// Zero stops it.
void start_timer(int timer, Duration first, Duration every) {
  const auto spec_of = [](Duration duration) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
    return timespec{seconds.count(), (duration - seconds).count()};
  };
  const itimerspec spec{spec_of(every), spec_of(first)};
  ::timerfd_settime(timer, 0, &spec, nullptr);
}

uint32_t epoll_events(short wants) { return (wants & POLLOUT) != 0 ? EPOLLOUT : EPOLLIN; }

}  // namespace

TcpListener::TcpListener(Events& events, const Credentials& credentials,
                         Greeting::Expected expected, const Logger* log)
    : events_(events), credentials_(credentials), expected_(std::move(expected)), log_(log) {}

Result<std::unique_ptr<TcpListener>> TcpListener::open(Events& events,
                                                       const std::vector<SocketAddress>& addresses,
                                                       const Credentials& credentials,
                                                       Greeting::Expected expected,
                                                       const Logger* log) {
  std::unique_ptr<TcpListener> listener(
      new TcpListener(events, credentials, std::move(expected), log));
  for (const SocketAddress& address : addresses) {
    Result<Fd> socket = listen_on(address);
    if (!socket.ok()) {
      return Status(socket.status().code(),
                    "init: listening on " + address.host() + ": " + socket.status().message())
          .with_errno(socket.status().sys_errno());
    }
    Result<SocketAddress> bound = address_of(socket.value().get());
    if (!bound.ok()) return bound.status();
    HVD_TRY(events.add(socket.value().get(), EPOLLIN, EventKind::kListener,
                       static_cast<uint32_t>(listener->sockets_.size())));
    listener->addresses_.push_back(bound.value());
    listener->sockets_.push_back(std::move(socket).value());
  }
  listener->timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!listener->timer_) return io_error("timerfd_create", errno);
  HVD_TRY(events.add(listener->timer_.get(), EPOLLIN, EventKind::kTimer, kListenerTimer));
  return listener;
}

void TcpListener::on_event(const Event& event, const Admit& admit) {
  switch (event.kind) {
    case EventKind::kListener: accept_some(event.index); break;
    case EventKind::kStranger: listen_to(static_cast<int>(event.index), admit); break;
    case EventKind::kTimer: on_timer(); break;
    default: break;
  }
}

void TcpListener::close() {
  while (!callers_.empty()) dismiss(callers_.begin()->first);
  start_timer(timer_.get(), Duration::zero(), Duration::zero());
  for (const Fd& socket : sockets_) events_.remove(socket.get());
  sockets_.clear();
}

// False if the strangers that are here have not had their time yet. Others wait in the system's
// queue.
bool TcpListener::make_room() {
  const std::optional<secure::Strangers::Victim> victim = strangers_.victim();
  if (!victim) return true;
  if (now() < victim->since + secure::Strangers::kGrace) {
    pause_accepting(secure::Strangers::kGrace);
    return false;
  }
  refuse(victim->id, Status(Code::kMismatch, "too many strangers at once"));
  return true;
}

void TcpListener::accept_some(uint32_t index) {
  if (index >= sockets_.size()) return;
  for (int count = 0; count < kAcceptsAtOnce && !paused_ && make_room(); ++count) {
    SocketAddress from;
    Result<Fd> accepted = accept_from(sockets_[index].get(), from);
    if (accepted.ok()) {
      take_in(std::move(accepted).value(), from.host());
      continue;
    }
    if (accepted.status().code() == Code::kPending) return;
    // The descriptors of strangers are the reserve for ranks.
    if (const auto stranger = strangers_.least_credible()) {
      refuse(stranger->id, accepted.status());
    } else {
      pause_accepting(kNoDescriptorsPause);
    }
  }
}

// The driver looks away from the listening sockets too, which stay ready and would wake it again
// and again.
void TcpListener::pause_accepting(Duration pause) {
  paused_ = true;
  for (size_t i = 0; i < sockets_.size(); ++i) {
    events_.change(sockets_[i].get(), 0, EventKind::kListener, static_cast<uint32_t>(i));
  }
  start_timer(timer_.get(), pause, kLookAtStrangers);
}

void TcpListener::accept_again() {
  paused_ = false;
  for (size_t i = 0; i < sockets_.size(); ++i) {
    events_.change(sockets_[i].get(), EPOLLIN, EventKind::kListener, static_cast<uint32_t>(i));
  }
  set_timer();
}

void TcpListener::take_in(Fd socket, const std::string& source) {
  auto greeting = Greeting::answer(std::move(socket), credentials_, expected_);
  if (!greeting.ok()) return;
  const int id = greeting.value()->fd();
  if (!events_.add(id, EPOLLIN, EventKind::kStranger, static_cast<uint32_t>(id)).ok()) return;
  const bool first = callers_.empty();
  callers_[id] = {std::move(greeting).value(), POLLIN};
  if (first) set_timer();
  strangers_.add(id, source, now());
  if (const auto excess = strangers_.excess(source, now())) {
    refuse(excess->id, Status(Code::kMismatch, "too many strangers from one address"));
  }
}

void TcpListener::listen_to(int id, const Admit& admit) {
  const auto found = callers_.find(id);
  if (found == callers_.end()) return;
  Caller& caller = found->second;
  const Status status = caller.greeting->step();
  if (status.code() == Code::kPending) {
    if (caller.greeting->credible()) strangers_.believe(id);
    const short wants = caller.greeting->wants();
    if (wants != caller.wants)
      events_.change(id, epoll_events(wants), EventKind::kStranger, static_cast<uint32_t>(id));
    caller.wants = wants;
    return;
  }
  if (!status.ok()) return refuse(id, status);
  const Call call = caller.greeting->purpose();
  events_.remove(id);
  Result<std::unique_ptr<Wire>> wire = caller.greeting->take_wire();
  strangers_.remove(id);
  callers_.erase(found);
  if (callers_.empty()) set_timer();
  if (!wire.ok()) return count_refusal(wire.status());
  if (!admit(call, wire.value())) count_refusal(Status(Code::kMismatch, "not expected"));
}

void TcpListener::refuse(int id, const Status& why) {
  count_refusal(why);
  dismiss(id);
}

void TcpListener::count_refusal(const Status& why) {
  // A rank that tries several addresses at once gives up all but one of them, which is no reason to
  // warn.
  const bool gave_up =
      why.code() == Code::kPeerLost || why.sys_errno() == ECONNRESET || why.sys_errno() == EPIPE;
  const LogLevel level = gave_up ? LogLevel::kDebug : LogLevel::kWarn;
  if (!gave_up) ++refused_;
  // A line at each power of two: a flood of connections is no flood of lines.
  if (log_ == nullptr || !log_->enabled(level) || (!gave_up && !std::has_single_bit(refused_)))
    return;
  log_->write(level, "transport",
              "connection to " + addresses_.front().text() + " refused: " + why.message() +
                  "; refused so far " + std::to_string(refused_));
}

void TcpListener::dismiss(int id) {
  events_.remove(id);
  strangers_.remove(id);
  callers_.erase(id);
  if (callers_.empty()) set_timer();
}

void TcpListener::on_timer() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(timer_.get(), &expirations, sizeof expirations);
  while (const std::optional<int> id = strangers_.overdue(now())) {
    refuse(*id, Status(Code::kMismatch, "no greeting in 5 s"));
  }
  if (paused_) accept_again();
}

// Runs while there are strangers. A pause has set it to its own end.
void TcpListener::set_timer() {
  if (paused_) return;
  const Duration every = callers_.empty() ? Duration::zero() : kLookAtStrangers;
  start_timer(timer_.get(), every, every);
}

}  // namespace hvd::transport
