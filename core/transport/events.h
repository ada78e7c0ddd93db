// SPDX-License-Identifier: Apache-2.0
// The epoll descriptor of one rank: everything that can wake it.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/fd.h"
#include "base/status.h"

namespace hvd::transport {

// Index of a kTimer event: whose it is.
inline constexpr uint32_t kWatchTimer = 0;
inline constexpr uint32_t kListenerTimer = 1;
inline constexpr uint32_t kLivenessTimer = 2;
inline constexpr uint32_t kSuspicionTimer = 3;

enum class EventKind : uint32_t {
  kBell,
  kTimer,
  kProcess,
  kUnixSocket,
  kListener,
  kStranger,
  kControl,
  kPayload,
  kStream,
  kLauncher
};

struct Event {
  EventKind kind;
  uint32_t index;  // counted as `kind` says: member, rank, slot
  uint32_t events;
};

class Events {
 public:
  static Result<Events> open();

  int fd() const { return epoll_.get(); }
  // Thread safe.
  Status add(int fd, uint32_t events, EventKind kind, uint32_t index);
  void change(int fd, uint32_t events, EventKind kind, uint32_t index) noexcept;
  // Does nothing in a forked child, whose epoll set is the parent's.
  void remove(int fd) noexcept;
  // The events that are ready now; valid until the next call.
  std::span<const Event> take();
  bool any() const noexcept;

 private:
  static epoll_event entry(uint32_t events, EventKind kind, uint32_t index);

  Fd epoll_;
  pid_t creator_ = -1;
  std::array<Event, 64> ready_{};
};

}  // namespace hvd::transport
