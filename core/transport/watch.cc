// SPDX-License-Identifier: Apache-2.0
#include "transport/watch.h"

#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "transport/death.h"

namespace hvd::transport {
namespace {

// How long the system may take to tell how a process ended, and a process that closed its
// connection to end; and the latter once it is seen to be ending, which takes a while on a machine
// with much to do.
constexpr Duration kPatience = std::chrono::milliseconds(200);
constexpr Duration kEndingPatience = std::chrono::seconds(2);
constexpr long kRetryNanoseconds = 2'000'000;

}  // namespace

Result<Watch> Watch::start(Events& events, std::vector<Fd> pidfds, std::vector<Fd> sockets,
                           const std::vector<pid_t>& pids) {
  Watch watch(events);
  if (pidfds.empty()) return watch;
  watch.timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!watch.timer_) return io_error("timerfd_create", errno);
  HVD_TRY(events.add(watch.timer_.get(), EPOLLIN, EventKind::kTimer, kWatchTimer));
  const pid_t own = ::getpid();
  for (size_t index = 0; index < pidfds.size(); ++index) {
    Member member;
    // A rank in this very process cannot die alone. In another container the same number may be
    // another process; asking the system about each rank would be a large part of the start.
    const bool ours =
        pids[index] == own && pidfds[index] && visible_pid(pidfds[index].get()) == own;
    if (!ours) member.pidfd = std::move(pidfds[index]);
    member.socket = std::move(sockets[index]);
    const auto number = static_cast<uint32_t>(index);
    if (member.pidfd) HVD_TRY(events.add(member.pidfd.get(), EPOLLIN, EventKind::kProcess, number));
    if (member.socket)
      HVD_TRY(events.add(member.socket.get(), EPOLLIN, EventKind::kUnixSocket, number));
    watch.members_.push_back(std::move(member));
  }
  return watch;
}

void Watch::set_timer(bool running) {
  itimerspec spec{};
  if (running) spec.it_value.tv_nsec = spec.it_interval.tv_nsec = kRetryNanoseconds;
  ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void Watch::on_process(int index) {
  Member& who = member(index);
  if (who.pidfd) events_->remove(who.pidfd.get());  // stays readable for ever
  if (who.state == State::kSettled || who.state == State::kEnded) return;
  if (who.state == State::kAlive) ++unsettled_;
  who.state = State::kEnded;
  who.since = now();
  set_timer(true);
}

void Watch::on_socket(int index) {
  Member& who = member(index);
  char byte = 0;
  const ssize_t got = ::recv(who.socket.get(), &byte, 1, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  events_->remove(who.socket.get());
  who.socket.reset();
  if (who.state != State::kAlive) return;
  who.state = State::kHungUp;
  who.since = now();
  ++unsettled_;
  set_timer(true);
}

std::vector<Watch::Loss> Watch::take_losses() {
  std::vector<Loss> losses;
  if (unsettled_ == 0) return losses;
  const Time current = now();
  for (size_t index = 0; index < members_.size(); ++index) {
    Member& who = members_[index];
    std::optional<std::string> cause;
    if (who.state == State::kEnded) {
      cause = how_it_ended(who.pidfd.get());
      if (!cause && current >= who.since + kPatience) cause = "ended (cause not known)";
    } else if (who.state == State::kHungUp) {
      // Sockets close a moment before the pidfd reports the end, and that knows more.
      const bool lives_on =
          !who.pidfd || (current >= who.since + kPatience && !is_ending(who.pidfd.get()));
      if (lives_on || current >= who.since + kEndingPatience) cause = "closed its connection";
    }
    if (!cause) continue;
    losses.push_back({static_cast<int>(index), *cause, who.state == State::kHungUp});
    who.state = State::kSettled;
    --unsettled_;
  }
  if (unsettled_ == 0) {
    set_timer(false);
  } else {
    uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t ignored = ::read(timer_.get(), &expirations, sizeof expirations);
  }
  return losses;
}

void Watch::forget(int index) {
  if (members_.empty()) return;
  Member& who = member(index);
  if (who.state == State::kEnded || who.state == State::kHungUp) --unsettled_;
  if (who.state != State::kEnded && who.pidfd) events_->remove(who.pidfd.get());
  if (who.socket) events_->remove(who.socket.get());
  who.state = State::kSettled;
  who.pidfd.reset();
  who.socket.reset();
  if (unsettled_ == 0) set_timer(false);
}

void Watch::hang_up() {
  for (Member& who : members_) {
    if (who.socket) ::shutdown(who.socket.get(), SHUT_RDWR);
  }
}

}  // namespace hvd::transport
