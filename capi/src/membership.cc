// SPDX-License-Identifier: Apache-2.0
#include "boundary.h"

using hvd::Code;
using hvd::Status;

hvd_status hvd_membership_get(hvd_context* context, hvd_membership* out, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (out == nullptr) return hvd::capi::null_argument("out");
    if (context->engine->forked()) return hvd::capi::forked_context();
    size_t writable = sizeof(hvd_membership);
    HVD_TRY(hvd::capi::check_sized(out, "hvd_membership", sizeof(hvd_membership), &writable));
    hvd_membership found = HVD_MEMBERSHIP_INIT;
    if (context->membership != nullptr) {
      const hvd::Result<uint32_t> changes = context->membership->changes();
      if (!changes.ok()) return changes.status();
      found.changes = changes.value();
      found.epoch = context->membership->epoch().number;
      found.synchronize = context->membership->epoch().synchronize ? 1 : 0;
    }
    found.struct_size = out->struct_size;
    *out = found;
    return {};
  });
}

hvd_status hvd_membership_leave(hvd_context* context, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (context->engine->forked()) return hvd::capi::forked_context();
    if (context->membership == nullptr)
      return Status(Code::kInvalidState, "membership: the members of this job are fixed");
    return context->membership->leave();
  });
}
