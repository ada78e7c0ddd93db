// SPDX-License-Identifier: Apache-2.0
#include "boundary.h"

using hvd::Status;

hvd_status hvd_metrics_snapshot(hvd_context* context, hvd_metric* out, size_t* metric_count,
                                hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (metric_count == nullptr) return hvd::capi::null_argument("metric_count");
    if (context->engine->forked()) return hvd::capi::forked_context();
    std::vector<std::pair<const hvd::MetricRow*, double>> rows;
    context->engine->snapshot(&rows);
    std::vector<hvd_metric> metrics;
    for (const auto& [row, value] : rows) metrics.push_back({row->name, row->unit, value, 0});
    return hvd::capi::give_array(metrics, out, metric_count, "metrics");
  });
}
