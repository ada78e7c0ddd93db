// SPDX-License-Identifier: Apache-2.0
#include "observe/timeline.h"
#include "boundary.h"

using hvd::Status;

hvd_status hvd_timeline_start(hvd_context* context, const char* path, int32_t mark_cycles,
                              hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (path == nullptr) return hvd::capi::null_argument("path");
    if (context->engine->forked()) return hvd::capi::forked_context();
    return context->timeline->start(path, mark_cycles != 0);
  });
}

hvd_status hvd_timeline_stop(hvd_context* context, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (context->engine->forked()) return hvd::capi::forked_context();
    return context->timeline->stop();
  });
}
