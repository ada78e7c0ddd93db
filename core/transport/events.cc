// SPDX-License-Identifier: Apache-2.0
#include "transport/events.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace hvd::transport {

Result<Events> Events::open() {
  Events events;
  events.creator_ = ::getpid();
  events.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!events.epoll_) return io_error("epoll_create1", errno);
  return events;
}

epoll_event Events::entry(uint32_t events, EventKind kind, uint32_t index) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = (static_cast<uint64_t>(kind) << 32) | index;
  return event;
}

Status Events::add(int fd, uint32_t events, EventKind kind, uint32_t index) {
  epoll_event event = entry(events, kind, index);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return io_error("epoll_ctl", errno);
  return {};
}

void Events::change(int fd, uint32_t events, EventKind kind, uint32_t index) noexcept {
  epoll_event event = entry(events, kind, index);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Events::remove(int fd) noexcept {
  if (::getpid() == creator_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::span<const Event> Events::take() {
  std::array<epoll_event, 64> found;
  int count = 0;
  do {
    count = ::epoll_wait(epoll_.get(), found.data(), static_cast<int>(found.size()), 0);
  } while (count < 0 && errno == EINTR);
  const size_t ready = count > 0 ? static_cast<size_t>(count) : 0;
  for (size_t i = 0; i < ready; ++i) {
    ready_[i] = {static_cast<EventKind>(found[i].data.u64 >> 32),
                 static_cast<uint32_t>(found[i].data.u64), found[i].events};
  }
  return std::span(ready_).first(ready);
}

bool Events::any() const noexcept {
  pollfd entry{epoll_.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace hvd::transport
