// SPDX-License-Identifier: Apache-2.0
#include "boundary.h"

using hvd::Status;

hvd_status hvd_topology_get(hvd_context* context, hvd_topology* out, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (out == nullptr) return hvd::capi::null_argument("out");
    if (context->engine->forked()) return hvd::capi::forked_context();
    size_t writable = sizeof(hvd_topology);
    HVD_TRY(hvd::capi::check_sized(out, "hvd_topology", sizeof(hvd_topology), &writable));
    const hvd::Topology& topology = context->engine->topology();
    out->rank = topology.rank();
    out->size = topology.size();
    // Programs choose their device by it, so it must not be that of a rank that lives.
    const int slot = context->membership == nullptr ? -1 : context->membership->slot();
    out->local_rank = slot < 0 ? topology.local_rank() : slot;
    out->local_size = topology.local_size();
    out->cross_rank = topology.cross_rank();
    out->cross_size = topology.cross_size();
    out->homogeneous = topology.homogeneous() ? 1 : 0;
    return {};
  });
}
