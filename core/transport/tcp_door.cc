// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_door.h"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <utility>

namespace hvd::transport {
namespace {

constexpr size_t kMostStrangers = 64;
constexpr Duration kGreetingTime = std::chrono::seconds(5);
// A flood of connections must not keep the driver from its work.
constexpr int kAcceptsAtOnce = 16;

uint32_t epoll_events(short wants) { return (wants & POLLOUT) != 0 ? EPOLLOUT : EPOLLIN; }

}  // namespace

TcpDoor::TcpDoor(Events& events, const Credentials& credentials, Greeting::Expected expected, const Logger* log)
    : events_(events), credentials_(credentials), expected_(std::move(expected)), log_(log), strangers_(kMostStrangers) {}

Result<std::unique_ptr<TcpDoor>> TcpDoor::open(Events& events, const std::vector<SocketAddress>& addresses,
                                               const Credentials& credentials, Greeting::Expected expected, const Logger* log) {
  std::unique_ptr<TcpDoor> door(new TcpDoor(events, credentials, std::move(expected), log));
  for (const SocketAddress& address : addresses) {
    Result<Fd> listener = listen_on(address);
    if (!listener.ok()) {
      return Status(listener.status().code(), "init: listening on " + address.host() + ": " + listener.status().message())
          .with_errno(listener.status().sys_errno());
    }
    Result<SocketAddress> bound = address_of(listener.value().get());
    if (!bound.ok()) return bound.status();
    HVD_TRY(events.add(listener.value().get(), EPOLLIN, EventKind::kListener, static_cast<uint32_t>(door->listeners_.size())));
    door->addresses_.push_back(bound.value());
    door->listeners_.push_back(std::move(listener).value());
  }
  door->timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!door->timer_) return io_error("timerfd_create", errno);
  HVD_TRY(events.add(door->timer_.get(), EPOLLIN, EventKind::kTimer, kDoorTimer));
  return door;
}

void TcpDoor::on_event(const Event& event, const Admit& admit) {
  switch (event.kind) {
    case EventKind::kListener: accept_some(event.index); break;
    case EventKind::kStranger: listen_to(event.index, admit); break;
    case EventKind::kTimer: expire(); break;
    default: break;
  }
}

void TcpDoor::close() {
  for (size_t slot = 0; slot < strangers_.size(); ++slot) dismiss(slot);
  for (const Fd& listener : listeners_) events_.remove(listener.get());
  listeners_.clear();
}

// An empty slot, or the oldest stranger's.
size_t TcpDoor::free_slot() {
  size_t slot = 0;
  for (size_t other = 0; other < strangers_.size(); ++other) {
    if (!strangers_[other].greeting) return other;
    if (strangers_[other].since < strangers_[slot].since) slot = other;
  }
  refuse(slot, "too many at once");
  return slot;
}

void TcpDoor::accept_some(uint32_t listener) {
  if (listener >= listeners_.size()) return;
  for (int count = 0; count < kAcceptsAtOnce; ++count) {
    Result<Fd> accepted = accept_from(listeners_[listener].get());
    if (!accepted.ok()) return;
    auto greeting = Greeting::answer(std::move(accepted).value(), credentials_, expected_);
    if (!greeting.ok()) continue;
    const size_t slot = free_slot();
    strangers_[slot] = {std::move(greeting).value(), now(), POLLIN};
    if (++present_ == 1) set_timer(true);
    if (!events_.add(strangers_[slot].greeting->fd(), EPOLLIN, EventKind::kStranger, static_cast<uint32_t>(slot)).ok()) {
      dismiss(slot);
    }
  }
}

void TcpDoor::listen_to(size_t slot, const Admit& admit) {
  Stranger& stranger = strangers_[slot];
  if (!stranger.greeting) return;
  const Status status = stranger.greeting->step();
  if (status.code() == Code::kPending) {
    const short wants = stranger.greeting->wants();
    if (wants != stranger.wants) {
      events_.change(stranger.greeting->fd(), epoll_events(wants), EventKind::kStranger, static_cast<uint32_t>(slot));
    }
    stranger.wants = wants;
    return;
  }
  if (!status.ok()) return refuse(slot, status.message());
  const Call call = stranger.greeting->purpose();
  events_.remove(stranger.greeting->fd());
  std::unique_ptr<Wire> wire = stranger.greeting->take_wire();
  stranger.greeting.reset();
  if (--present_ == 0) set_timer(false);
  if (!admit(call, wire)) refuse(slot, "not expected");
}

void TcpDoor::refuse(size_t slot, const std::string& why) {
  ++refused_;
  // A line at each power of two: a flood of connections is no flood of lines.
  if (log_ != nullptr && std::has_single_bit(refused_) && log_->enabled(LogLevel::kWarn)) {
    log_->write(
        LogLevel::kWarn, "transport",
        "connection to " + addresses_.front().text() + " refused: " + why + "; refused so far " + std::to_string(refused_));
  }
  dismiss(slot);
}

void TcpDoor::dismiss(size_t slot) {
  Stranger& stranger = strangers_[slot];
  if (!stranger.greeting) return;
  events_.remove(stranger.greeting->fd());
  stranger.greeting.reset();
  if (--present_ == 0) set_timer(false);
}

void TcpDoor::expire() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(timer_.get(), &expirations, sizeof expirations);
  const Time limit = now() - kGreetingTime;
  for (size_t slot = 0; slot < strangers_.size(); ++slot) {
    if (strangers_[slot].greeting && strangers_[slot].since < limit) refuse(slot, "no greeting in 5 s");
  }
}

void TcpDoor::set_timer(bool running) {
  itimerspec spec{};
  if (running) spec.it_value.tv_sec = spec.it_interval.tv_sec = 1;
  ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

}  // namespace hvd::transport
