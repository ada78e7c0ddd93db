// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace hvd {
namespace {

std::string descriptor_limit_text() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return "; this process may open " + std::to_string(limit.rlim_cur) +
         " descriptors (RLIMIT_NOFILE); ulimit -n raises it";
}

}  // namespace

const char* code_name(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "HVD_OK";
    case Code::kPending: return "HVD_PENDING";
    case Code::kInvalidArgument: return "HVD_ERR_INVALID_ARGUMENT";
    case Code::kInvalidState: return "HVD_ERR_INVALID_STATE";
    case Code::kNotFound: return "HVD_ERR_NOT_FOUND";
    case Code::kAlreadyExists: return "HVD_ERR_ALREADY_EXISTS";
    case Code::kUnsupported: return "HVD_ERR_UNSUPPORTED";
    case Code::kVersion: return "HVD_ERR_VERSION";
    case Code::kOutOfMemory: return "HVD_ERR_OUT_OF_MEMORY";
    case Code::kWouldDeadlock: return "HVD_ERR_WOULD_DEADLOCK";
    case Code::kMismatch: return "HVD_ERR_MISMATCH";
    case Code::kCancelled: return "HVD_ERR_CANCELLED";
    case Code::kTimeout: return "HVD_ERR_TIMEOUT";
    case Code::kSetBroken: return "HVD_ERR_SET_BROKEN";
    case Code::kPeerLost: return "HVD_ERR_PEER_LOST";
    case Code::kShutDown: return "HVD_ERR_SHUT_DOWN";
    case Code::kIo: return "HVD_ERR_IO";
    case Code::kDismissed: return "HVD_ERR_DISMISSED";
    case Code::kInternal: return "HVD_ERR_INTERNAL";
  }
  return "HVD_ERR_UNKNOWN";
}

const std::string& Status::message() const {
  static const std::string none;
  static const std::string no_memory("no memory left");  // short enough to need none
  if (detail_) return detail_->message;
  return ok() || code_ == Code::kPending ? none : no_memory;
}

Status io_error(std::string_view what, int number) {
  char text[128] = {};
  // GNU strerror_r may return a static string instead of filling `text`.
  const char* reason = strerror_r(number, text, sizeof text);
  std::string said = std::string(what) + ": " + reason + " (" + std::to_string(number) + ")";
  if (number == EMFILE) said += descriptor_limit_text();
  Status status(Code::kIo, std::move(said));
  return status.with_errno(number);
}

}  // namespace hvd
