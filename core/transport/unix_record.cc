// SPDX-License-Identifier: Apache-2.0
#include "transport/unix_record.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace hvd::transport {
namespace {

Status failed(const char* call, int reason) {
  if (reason == EPIPE || reason == ECONNRESET)
    return Status(Code::kPeerLost, "closed its connection").with_errno(reason);
  return io_error(call, reason);
}

}  // namespace

int poll_timeout(Time deadline) {
  if (deadline == kNever) return 60'000;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

Status wait_for(int fd, short events, Time deadline) {
  while (true) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, poll_timeout(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return io_error("poll", errno);
    if (now() >= deadline) return Status(Code::kTimeout, "deadline passed");
  }
}

Status send_record(int socket, std::span<const std::byte> bytes, std::span<const int> fds,
                   Time deadline) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (true) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    const int reason = errno;
    if (reason == EINTR) continue;
    if (reason == EAGAIN) {
      HVD_TRY(wait_for(socket, POLLOUT, deadline));
    } else if (reason == ETOOMANYREFS && now() < deadline) {
      // Too many descriptors under way for this user; the receivers are taking them out.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      return failed("sendmsg", reason);
    }
  }
}

Status receive_record_now(int socket, std::span<std::byte> bytes, std::vector<Fd>* fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
  iovec piece{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (fds != nullptr) {
    // Without room for them, descriptors that come along are dropped by the kernel.
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    // now: once they have come they must not be lost for want of memory
    fds->reserve(fds->size() + kMostFds);
  }
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN ? Status::pending() : failed("recvmsg", errno);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); fds != nullptr && header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + at, sizeof number);
      fds->emplace_back(number);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) return io_error("receiving descriptors", EMFILE);
  if (got == 0) return Status(Code::kPeerLost, "closed its connection");
  if (static_cast<size_t>(got) != bytes.size() || (message.msg_flags & MSG_TRUNC) != 0) {
    return Status(Code::kMismatch, "a record of " + std::to_string(got) + " bytes, expected " +
                                       std::to_string(bytes.size()));
  }
  return {};
}

Status receive_record(int socket, std::span<std::byte> bytes, std::vector<Fd>* fds, Time deadline) {
  while (true) {
    Status status = receive_record_now(socket, bytes, fds);
    if (status.code() != Code::kPending) return status;
    HVD_TRY(wait_for(socket, POLLIN, deadline));
  }
}

}  // namespace hvd::transport
