// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <algorithm>

#include "errors.h"

namespace py = pybind11;

namespace hvd::python {
namespace {

hvd_process_set* to_set(uintptr_t address) { return reinterpret_cast<hvd_process_set*>(address); }

// Calls a function with the header's two-call size protocol until the answer fits.
template <class Element, class Function>
std::vector<Element> sized_list(const Function& function) {
  hvd_error error = HVD_ERROR_INIT;
  size_t count = 0;
  check(function(nullptr, &count, &error), error);
  for (;;) {
    std::vector<Element> values(std::max<size_t>(count, 1));
    count = values.size();
    const hvd_status status = function(values.data(), &count, &error);
    if (status == HVD_ERR_INVALID_ARGUMENT && count > values.size()) continue;  // it grew meanwhile
    check(status, error);
    values.resize(count);
    return values;
  }
}

}  // namespace

Context::Context(int32_t rank, int32_t size, py::object rendezvous, int64_t timeout_ns,
                 const Options& options, py::object log) {
  std::vector<hvd_option> pairs;
  for (const auto& [name, value] : options) pairs.push_back({name.c_str(), value.c_str()});
  const std::string url = rendezvous.is_none() ? std::string() : rendezvous.cast<std::string>();
  hvd_init_options settings = HVD_INIT_OPTIONS_INIT;
  settings.rank = rank;
  settings.size = size;
  settings.rendezvous = rendezvous.is_none() ? nullptr : url.c_str();
  settings.timeout_ns = timeout_ns;
  settings.options = pairs.empty() ? nullptr : pairs.data();
  settings.option_count = pairs.size();
  if (!log.is_none()) {
    const auto [level, show_time] = log.cast<std::pair<int32_t, bool>>();
    log_ = std::make_unique<LogSettings>(LogSettings{level, show_time});
    settings.log_fn = write_log_line;
    settings.log_user_data = log_.get();
  }
  hvd_error error = HVD_ERROR_INIT;
  hvd_status status = HVD_OK;
  {
    const py::gil_scoped_release released;
    status = hvd_init(&settings, &context_, &error);
  }
  check(status, error);
}

void Context::free() {
  hvd_context* context = std::exchange(context_, nullptr);
  if (context == nullptr) return;
  const py::gil_scoped_release released;
  hvd_context_free(context);
}

void Context::shutdown(int64_t timeout_ns) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_status status = HVD_OK;
  {
    const py::gil_scoped_release released;
    status = hvd_shutdown(context_, timeout_ns, &error);
  }
  Orphans::of_process().sweep();
  check(status, error);
}

void Context::status() {
  hvd_error error = HVD_ERROR_INIT;
  check(hvd_context_status(context_, &error), error);
}

std::tuple<int, int, int, int, int, int, bool> Context::topology() {
  hvd_topology t = HVD_TOPOLOGY_INIT;
  hvd_error error = HVD_ERROR_INIT;
  check(hvd_topology_get(context_, &t, &error), error);
  return {t.rank,       t.size,       t.local_rank,      t.local_size,
          t.cross_rank, t.cross_size, t.homogeneous != 0};
}

std::tuple<uint32_t, int64_t, bool> Context::membership() {
  hvd_membership m = HVD_MEMBERSHIP_INIT;
  hvd_error error = HVD_ERROR_INIT;
  check(hvd_membership_get(context_, &m, &error), error);
  return {m.changes, m.epoch, m.synchronize != 0};
}

void Context::leave() {
  hvd_error error = HVD_ERROR_INIT;
  check(hvd_membership_leave(context_, &error), error);
}

uintptr_t Context::set_create(const std::vector<int32_t>& ranks) {
  hvd_process_set* set = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  hvd_status status = HVD_OK;
  {
    const py::gil_scoped_release released;
    status = hvd_process_set_create(context_, ranks.data(), ranks.size(), &set, &error);
  }
  check(status, error);
  return reinterpret_cast<uintptr_t>(set);
}

uintptr_t Context::set_find(int32_t id) {
  hvd_process_set* set = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  check(hvd_process_set_find(context_, id, &set, &error), error);
  return reinterpret_cast<uintptr_t>(set);
}

std::vector<int32_t> Context::set_ids() {
  return sized_list<int32_t>([this](int32_t* ids, size_t* count, hvd_error* error) {
    return hvd_process_set_ids(context_, ids, count, error);
  });
}

std::vector<int32_t> Context::set_ranks(uintptr_t set) {
  const hvd_process_set* which = set == 0 ? hvd_process_set_world(context_) : to_set(set);
  return sized_list<int32_t>([which](int32_t* ranks, size_t* count, hvd_error* error) {
    return hvd_process_set_ranks(which, ranks, count, error);
  });
}

void Context::set_destroy(uintptr_t set) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_status status = HVD_OK;
  {
    const py::gil_scoped_release released;
    status = hvd_process_set_destroy(to_set(set), &error);
  }
  check(status, error);
}

void Context::set_free(uintptr_t set) { hvd_process_set_free(to_set(set)); }

int32_t Context::set_id(uintptr_t set) { return hvd_process_set_id(to_set(set)); }

std::string Context::option_get(const std::string& name) {
  const std::vector<char> value = sized_list<char>([&](char* text, size_t* size, hvd_error* error) {
    return hvd_option_get(context_, name.c_str(), text, size, error);
  });
  return value.data();
}

void Context::option_set(const std::string& name, const std::string& value) {
  hvd_error error = HVD_ERROR_INIT;
  check(hvd_option_set(context_, name.c_str(), value.c_str(), &error), error);
}

std::vector<std::tuple<std::string, std::string, double>> Context::metrics() {
  const auto snapshot =
      sized_list<hvd_metric>([this](hvd_metric* out, size_t* count, hvd_error* error) {
        return hvd_metrics_snapshot(context_, out, count, error);
      });
  std::vector<std::tuple<std::string, std::string, double>> metrics;
  for (const hvd_metric& metric : snapshot)
    metrics.emplace_back(metric.name, metric.unit, metric.value);
  return metrics;
}

py::list Context::histograms() {
  const auto snapshot =
      sized_list<hvd_histogram>([this](hvd_histogram* out, size_t* count, hvd_error* error) {
        return hvd_histograms_snapshot(context_, out, count, error);
      });
  py::list histograms;
  for (const hvd_histogram& h : snapshot) {
    const std::vector<uint64_t> buckets(std::begin(h.buckets), std::end(h.buckets));
    histograms.append(py::make_tuple(h.name, h.unit, h.value_count, h.sum, buckets));
  }
  return histograms;
}

// In the order of the struct's fields.
py::list Context::records(uint64_t after) {
  const auto snapshot =
      sized_list<hvd_record>([&](hvd_record* out, size_t* count, hvd_error* error) {
        return hvd_records_snapshot(context_, after, out, count, error);
      });
  py::list records;
  for (const hvd_record& r : snapshot) {
    const py::tuple shape = py::make_tuple(r.shape[0], r.shape[1], r.shape[2], r.shape[3]);
    records.append(py::make_tuple(r.number, r.use, r.kind, py::str(r.name), r.process_set, r.status,
                                  r.dtype, r.reduce_op, r.tensors, r.ndim, r.last_rank,
                                  r.waited_for, shape, r.bytes, r.group, r.group_bytes,
                                  r.group_operations, r.spread, r.submitted, r.agreed, r.begun,
                                  r.ended, r.waited, r.moved, r.reduced, r.copied));
  }
  return records;
}

std::vector<int64_t> Context::record_arrivals(uintptr_t set, uint64_t use) {
  const hvd_process_set* which = set == 0 ? hvd_process_set_world(context_) : to_set(set);
  return sized_list<int64_t>([&](int64_t* times, size_t* count, hvd_error* error) {
    return hvd_record_arrivals(which, use, times, count, error);
  });
}

void Context::timeline_start(const std::string& path, bool mark_cycles) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_status status = HVD_OK;
  {
    const py::gil_scoped_release others_run;
    status = hvd_timeline_start(context_, path.c_str(), mark_cycles, &error);
  }
  check(status, error);
}

void Context::timeline_stop() {
  hvd_error error = HVD_ERROR_INIT;
  hvd_status status = HVD_OK;
  {
    const py::gil_scoped_release others_run;
    status = hvd_timeline_stop(context_, &error);
  }
  check(status, error);
}

int32_t Context::completions_fd() {
  int32_t fd = -1;
  hvd_error error = HVD_ERROR_INIT;
  check(hvd_completions_fd(context_, &fd, &error), error);
  queueing_ = true;
  return fd;
}

uintptr_t Context::completions_pop() {
  if (context_ == nullptr) return 0;
  hvd_handle* handle = hvd_completions_pop(context_);
  hvd_handle_free(handle);  // the queue's own reference; the Operation holds another
  return reinterpret_cast<uintptr_t>(handle);
}

}  // namespace hvd::python
