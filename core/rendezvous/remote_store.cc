// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/remote_store.h"

#include <errno.h>
#include <poll.h>

#include <algorithm>
#include <optional>

namespace hvd::rendezvous {
namespace {

using namespace std::chrono_literals;

// Replies other than to get come at once; a server that takes longer is stopped or gone.
constexpr Duration kReplyWait = 30s;
// A get is timed by the server; kGrace later the client stops believing in the server.
constexpr Duration kGrace = 5s;

}  // namespace

Status RemoteStore::wait_for(short events, Time deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
    pollfd watched = {channel_.fd(), events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return io_error("poll", errno);
    if (now() >= deadline) return {Code::kTimeout, "no answer from the server in time"};
  }
}

Status RemoteStore::send_all(std::span<const std::byte> bytes, Time deadline) {
  while (!bytes.empty()) {
    const Result<size_t> sent = channel_.write(bytes);
    if (sent.ok()) {
      bytes = bytes.subspan(sent.value());
    } else if (sent.status().code() == Code::kPending) {
      HVD_TRY(wait_for(channel_.wants(), deadline));
    } else {
      return sent.status();
    }
  }
  return {};
}

Status RemoteStore::receive_all(std::span<std::byte> bytes, Time deadline) {
  while (!bytes.empty()) {
    const Result<size_t> got = channel_.read(bytes);
    if (got.ok()) {
      bytes = bytes.subspan(got.value());
    } else if (got.status().code() == Code::kPending) {
      HVD_TRY(wait_for(channel_.wants(), deadline));
    } else {
      return got.status();
    }
  }
  return {};
}

// Sends message_ and puts the body of the reply into it.
Status RemoteStore::exchange(Time deadline) {
  HVD_TRY(send_all(message_, deadline));
  uint32_t size = 0;
  HVD_TRY(receive_all(std::as_writable_bytes(std::span(&size, 1)), deadline));
  if (size > kLargestReply)
    return {Code::kIo, "a reply of " + std::to_string(size) + " bytes is none of ours"};
  message_.resize(size);
  return receive_all(message_, deadline);
}

Result<RemoteStore::Answer> RemoteStore::ask(const Request& request, Time deadline) {
  if (!channel_) return Status(Code::kIo, name_ + ": the connection is closed");
  message_.clear();
  put_request(message_, request);
  Status status = exchange(deadline);
  std::optional<Reply> reply;
  if (status.ok() && !(reply = read_reply(message_)))
    status = Status(Code::kIo, "a reply is malformed");
  if (!status.ok()) {
    // The next reply would be taken for the answer to another request.
    channel_.close();
    if (status.code() == Code::kPeerLost)
      return Status(Code::kIo, name_ + ": the server has closed the connection");
    return Status(status.code(), name_ + ": " + status.message()).with_errno(status.sys_errno());
  }
  if (reply->code != Code::kOk) return Status(reply->code, std::string(reply->text));
  return Answer{reply->number, std::string(reply->text)};
}

Status RemoteStore::set(const std::string& key, const std::string& value) {
  HVD_TRY(check_entry(key, value));
  return ask({Verb::kSet, 0, key, value}, now() + kReplyWait).status();
}

Result<std::string> RemoteStore::get(const std::string& key, Time deadline) {
  HVD_TRY(check_key(key));
  const Time start = now();
  const Duration wait =
      deadline == kNever ? Duration(-1) : std::max(deadline - start, Duration::zero());
  Result<Answer> answer =
      ask({Verb::kGet, wait.count(), key, {}}, deadline_after(deadline, kGrace));
  if (!answer.ok()) return answer.status();
  return std::move(answer).value().text;
}

Result<int64_t> RemoteStore::add(const std::string& key, int64_t delta) {
  HVD_TRY(check_key(key));
  const Result<Answer> answer = ask({Verb::kAdd, delta, key, {}}, now() + kReplyWait);
  if (!answer.ok()) return answer.status();
  return answer.value().number;
}

Status RemoteStore::remove(const std::string& key) {
  HVD_TRY(check_key(key));
  return ask({Verb::kRemove, 0, key, {}}, now() + kReplyWait).status();
}

}  // namespace hvd::rendezvous
