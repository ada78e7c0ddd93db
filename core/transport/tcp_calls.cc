// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_calls.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/tcp_socket.h"
#include "transport/unix_record.h"

namespace hvd::transport {
namespace {

using namespace std::chrono_literals;

// The next address is tried this much later, so that the usual case costs one connection.
constexpr Duration kStagger = 20ms;
// A busy rank sends callers away when too many come at once; a dead one never answers again.
constexpr Duration kFirstPause = 30ms;
constexpr Duration kLongestPause = 500ms;
constexpr int kHopelessRounds = 3;

// Somebody was there and closed the connection, perhaps because too many came at once.
bool sent_away(const Status& failure) {
  return failure.code() == Code::kPeerLost || failure.sys_errno() == ECONNRESET ||
         failure.sys_errno() == EPIPE;
}

}  // namespace

void Calls::add(const Call& call, std::vector<SocketAddress> candidates) {
  Target target;
  target.call = call;
  for (const SocketAddress& address : candidates)
    target.attempts.push_back({address, {}, nullptr, {}});
  plan(target, now());
  targets_.push_back(std::move(target));
  ++open_;
}

void Calls::plan(Target& target, Time from) {
  for (Attempt& attempt : target.attempts) {
    attempt.begins = from;
    attempt.failure = Status();
    from += kStagger;
  }
}

Time Calls::next_begin() const {
  Time next = kNever;
  for (const Target& target : targets_) {
    if (target.closed) continue;
    for (const Attempt& attempt : target.attempts) {
      if (!attempt.greeting && attempt.failure.ok()) next = std::min(next, attempt.begins);
    }
  }
  return next;
}

Status Calls::step(int also, Time deadline) {
  watched_.assign(1, {also, POLLIN, 0});
  for (const Target& target : targets_) {
    for (const Attempt& attempt : target.attempts) {
      if (attempt.greeting)
        watched_.push_back({attempt.greeting->fd(), attempt.greeting->wants(), 0});
    }
  }
  const int ready =
      ::poll(watched_.data(), watched_.size(), poll_timeout(std::min(deadline, next_begin())));
  if (ready < 0 && errno != EINTR) return io_error("poll", errno);
  for (Target& target : targets_) {
    if (target.closed) continue;
    move(target);
    HVD_TRY(after_failures(target));
  }
  return {};
}

void Calls::begin(Target& target, Attempt& attempt) {
  Result<Fd> socket = connect_to(attempt.address);
  if (!socket.ok()) {
    attempt.failure = socket.status();
    return;
  }
  auto greeting = Greeting::call(std::move(socket).value(), credentials_, target.call);
  if (greeting.ok()) {
    attempt.greeting = std::move(greeting).value();
  } else {
    attempt.failure = greeting.status();
  }
}

void Calls::move(Target& target) {
  for (Attempt& attempt : target.attempts) {
    if (!attempt.greeting && attempt.failure.ok() && now() >= attempt.begins)
      begin(target, attempt);
    if (!attempt.greeting) continue;
    Status status = attempt.greeting->step();
    if (status.code() == Code::kPending) continue;
    if (status.ok()) status = attempt.greeting->choose();
    Result<std::unique_ptr<Wire>> wire = status.ok() ? attempt.greeting->take_wire() : status;
    if (wire.ok()) {
      connections_.push_back({target.call, attempt.address, std::move(wire).value()});
      target.closed = true;
      --open_;
      for (Attempt& other : target.attempts) other.greeting.reset();
      return;
    }
    attempt.greeting.reset();
    attempt.failure = wire.status();
  }
}

Status Calls::after_failures(Target& target) {
  if (target.closed) return {};
  const bool all_failed = std::all_of(target.attempts.begin(), target.attempts.end(),
                                      [](const Attempt& attempt) { return !attempt.failure.ok(); });
  if (!all_failed) return {};
  const bool hopeless =
      std::none_of(target.attempts.begin(), target.attempts.end(),
                   [](const Attempt& attempt) { return sent_away(attempt.failure); });
  if (++target.rounds >= kHopelessRounds && hopeless) {
    return Status(Code::kPeerLost, "connecting to " + story(target)).with_rank(target.call.to);
  }
  plan(target,
       now() + std::min<Duration>(kFirstPause * (1 << std::min(target.rounds, 5)), kLongestPause));
  return {};
}

std::string Calls::story(const Target& target) const {
  std::string text;
  for (const Attempt& attempt : target.attempts) {
    const std::string how = attempt.greeting       ? "no answer"
                            : attempt.failure.ok() ? "not tried"
                                                   : attempt.failure.message();
    text += (text.empty() ? "" : "; ") + attempt.address.text() + ": " + how;
  }
  return text.empty() ? "no address" : text;
}

Status Calls::timed_out() const {
  for (const Target& target : targets_) {
    if (!target.closed)
      return Status(Code::kTimeout, "connecting to " + story(target)).with_rank(target.call.to);
  }
  return {};
}

}  // namespace hvd::transport
