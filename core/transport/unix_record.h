// SPDX-License-Identifier: Apache-2.0
// One record over a Unix SOCK_SEQPACKET socket, with file descriptors attached, and waiting for
// either with a deadline.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace hvd::transport {

// The system takes 253.
inline constexpr size_t kMostFds = 128;

// Milliseconds to give to poll(): rounded up, -1 for never, at most a minute so that a changed
// clock source is no harm.
int poll_timeout(Time deadline);
// Waits until `fd` is ready for `events`; kTimeout at the deadline.
Status wait_for(int fd, short events, Time deadline);

Status send_record(int socket, std::span<const std::byte> bytes, std::span<const int> fds,
                   Time deadline);
// Does not wait. The record must have exactly the size of `bytes`. kPending: nothing there yet;
// kPeerLost: the other end is closed; kMismatch: a record of another size.
Status receive_record_now(int socket, std::span<std::byte> bytes, std::vector<Fd>* fds);
Status receive_record(int socket, std::span<std::byte> bytes, std::vector<Fd>* fds, Time deadline);

template <class T>
std::span<const std::byte> bytes_of(const T& record) {
  return std::as_bytes(std::span<const T>(&record, 1));
}
template <class T>
std::span<std::byte> bytes_into(T& record) {
  return std::as_writable_bytes(std::span<T>(&record, 1));
}

}  // namespace hvd::transport
