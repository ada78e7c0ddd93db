// SPDX-License-Identifier: Apache-2.0
#include "boundary.h"

namespace {

constexpr bool same(hvd::Code code, hvd_status status) {
  return static_cast<hvd_status>(code) == status;
}

static_assert(same(hvd::Code::kOk, HVD_OK) && same(hvd::Code::kPending, HVD_PENDING));
static_assert(same(hvd::Code::kInvalidArgument, HVD_ERR_INVALID_ARGUMENT));
static_assert(same(hvd::Code::kInvalidState, HVD_ERR_INVALID_STATE) &&
              same(hvd::Code::kNotFound, HVD_ERR_NOT_FOUND));
static_assert(same(hvd::Code::kAlreadyExists, HVD_ERR_ALREADY_EXISTS));
static_assert(same(hvd::Code::kUnsupported, HVD_ERR_UNSUPPORTED) &&
              same(hvd::Code::kVersion, HVD_ERR_VERSION));
static_assert(same(hvd::Code::kOutOfMemory, HVD_ERR_OUT_OF_MEMORY));
static_assert(same(hvd::Code::kWouldDeadlock, HVD_ERR_WOULD_DEADLOCK));
static_assert(same(hvd::Code::kMismatch, HVD_ERR_MISMATCH) &&
              same(hvd::Code::kCancelled, HVD_ERR_CANCELLED));
static_assert(same(hvd::Code::kTimeout, HVD_ERR_TIMEOUT) &&
              same(hvd::Code::kSetBroken, HVD_ERR_SET_BROKEN));
static_assert(same(hvd::Code::kPeerLost, HVD_ERR_PEER_LOST) &&
              same(hvd::Code::kShutDown, HVD_ERR_SHUT_DOWN));
static_assert(same(hvd::Code::kIo, HVD_ERR_IO) && same(hvd::Code::kDismissed, HVD_ERR_DISMISSED));
static_assert(same(hvd::Code::kInternal, HVD_ERR_INTERNAL));
static_assert(sizeof(hvd_error) == 1024);

}  // namespace

const char* hvd_status_name(hvd_status status) {
  return hvd::code_name(static_cast<hvd::Code>(status));
}
