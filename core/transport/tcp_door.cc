// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_door.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <utility>

namespace hvd::transport {
namespace {

constexpr size_t kMostStrangers = 64;
constexpr Duration kHelloTime = std::chrono::seconds(5);
// A flood of connections must not keep the driver from its work.
constexpr int kAcceptsAtOnce = 16;

}  // namespace

Result<TcpDoor> TcpDoor::open(Events& events, const std::string& address, std::string token, const Logger* log) {
  Result<SocketAddress> at = SocketAddress::loopback(address, 0);
  if (!at.ok()) return at.status();
  Result<Fd> listener = listen_on(at.value());
  if (!listener.ok()) {
    return Status(listener.status().code(), "init: listening on " + address + ": " + listener.status().message())
        .with_errno(listener.status().sys_errno());
  }
  Result<uint16_t> port = port_of(listener.value().get());
  if (!port.ok()) return port.status();

  TcpDoor door;
  door.events_ = &events;
  door.log_ = log;
  door.token_ = std::move(token);
  door.address_ = address + " " + std::to_string(port.value());
  door.listener_ = std::move(listener).value();
  door.timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!door.timer_) return io_error("timerfd_create", errno);
  door.strangers_.resize(kMostStrangers);
  HVD_TRY(events.add(door.listener_.get(), EPOLLIN, EventKind::kListener, 0));
  HVD_TRY(events.add(door.timer_.get(), EPOLLIN, EventKind::kTimer, kDoorTimer));
  return door;
}

void TcpDoor::on_event(const Event& event, const Admit& admit) {
  switch (event.kind) {
    case EventKind::kListener: accept_some(); break;
    case EventKind::kStranger: listen_to(event.index, admit); break;
    case EventKind::kTimer: expire(); break;
    default: break;
  }
}

void TcpDoor::close() {
  for (size_t slot = 0; slot < strangers_.size(); ++slot) dismiss(slot);
  if (listener_) events_->remove(listener_.get());
  listener_.reset();
}

void TcpDoor::accept_some() {
  for (int count = 0; count < kAcceptsAtOnce; ++count) {
    Result<Fd> accepted = accept_from(listener_.get());
    if (!accepted.ok()) return;
    size_t slot = 0;
    for (size_t other = 0; other < strangers_.size(); ++other) {
      if (!strangers_[other].socket) {
        slot = other;
        break;
      }
      if (strangers_[other].since < strangers_[slot].since) slot = other;
    }
    if (strangers_[slot].socket) refuse(slot, "too many at once");
    Stranger& stranger = strangers_[slot];
    stranger = Stranger{std::move(accepted).value(), now(), 0, {}};
    if (++present_ == 1) set_timer(true);
    if (!events_->add(stranger.socket.get(), EPOLLIN, EventKind::kStranger, static_cast<uint32_t>(slot)).ok()) dismiss(slot);
  }
}

void TcpDoor::listen_to(size_t slot, const Admit& admit) {
  Stranger& stranger = strangers_[slot];
  if (!stranger.socket) return;
  auto* into = reinterpret_cast<char*>(&stranger.hello);
  const ssize_t got = ::recv(stranger.socket.get(), into + stranger.got, sizeof(TcpHello) - stranger.got, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return refuse(slot, "closed before its hello was complete");
  stranger.got += static_cast<size_t>(got);
  const TcpHello ours;
  if (stranger.got >= sizeof ours.magic && stranger.hello.magic != ours.magic) return refuse(slot, "not of this protocol");
  if (stranger.got < sizeof(TcpHello)) return;
  if (stranger.hello.protocol != ours.protocol) return refuse(slot, "another protocol version");
  if (!stranger.hello.proves(token_)) return refuse(slot, "wrong token");
  events_->remove(stranger.socket.get());
  Fd socket = std::move(stranger.socket);
  if (--present_ == 0) set_timer(false);
  if (!admit(stranger.hello, socket)) refuse(slot, "not expected");
}

void TcpDoor::refuse(size_t slot, const char* why) {
  ++refused_;
  // A line at each power of two: a flood of connections is no flood of lines.
  if (log_ != nullptr && std::has_single_bit(refused_) && log_->enabled(LogLevel::kWarn)) {
    log_->write(LogLevel::kWarn, "transport",
                "connection to " + address_ + " refused: " + why + "; refused so far " + std::to_string(refused_));
  }
  dismiss(slot);
}

void TcpDoor::dismiss(size_t slot) {
  Stranger& stranger = strangers_[slot];
  if (!stranger.socket) return;
  events_->remove(stranger.socket.get());
  stranger.socket.reset();
  if (--present_ == 0) set_timer(false);
}

void TcpDoor::expire() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(timer_.get(), &expirations, sizeof expirations);
  const Time limit = now() - kHelloTime;
  for (size_t slot = 0; slot < strangers_.size(); ++slot) {
    if (strangers_[slot].socket && strangers_[slot].since < limit) refuse(slot, "no hello in 5 s");
  }
}

void TcpDoor::set_timer(bool running) {
  itimerspec spec{};
  if (running) spec.it_value.tv_sec = spec.it_interval.tv_sec = 1;
  ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

}  // namespace hvd::transport
