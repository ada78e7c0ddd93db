// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/histograms.h"
#include "base/metrics.h"
#include "boundary.h"

using hvd::Status;

namespace {

hvd_histogram to_histogram(const hvd::HistogramRow& row, const hvd::Histogram& from) {
  static_assert(sizeof hvd_histogram{}.buckets / sizeof(uint64_t) == hvd::Histogram::kBuckets);
  hvd_histogram out{};
  out.name = row.name;
  out.unit = row.unit;
  out.sum = from.sum();
  for (size_t i = 0; i < hvd::Histogram::kBuckets; ++i) {
    out.buckets[i] = from.bucket(i);
    out.value_count += out.buckets[i];
  }
  return out;
}

}  // namespace

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

hvd_status hvd_histograms_snapshot(hvd_context* context, hvd_histogram* out,
                                   size_t* histogram_count, hvd_error* error) {
  return hvd::capi::guard(error, [&]() -> Status {
    if (context == nullptr) return hvd::capi::null_argument("context");
    if (histogram_count == nullptr) return hvd::capi::null_argument("histogram_count");
    if (context->engine->forked()) return hvd::capi::forked_context();
    const hvd::Histograms& all = context->engine->histograms();
    std::vector<hvd_histogram> histograms;
    for (const hvd::HistogramRow& row : hvd::kHistogramRows)
      histograms.push_back(to_histogram(row, all.*row.member));
    return hvd::capi::give_array(histograms, out, histogram_count, "histograms");
  });
}

const char* hvd_metric_help(const char* name) {
  if (name == nullptr) return nullptr;
  for (const hvd::MetricRow& row : hvd::kMetricRows)
    if (std::strcmp(row.name, name) == 0) return row.help;
  for (const hvd::HistogramRow& row : hvd::kHistogramRows)
    if (std::strcmp(row.name, name) == 0) return row.help;
  return nullptr;
}
