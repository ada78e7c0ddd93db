// SPDX-License-Identifier: Apache-2.0
// How a context is opened, and what an operation is told.
#pragma once

#include <hvd/hvd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "process_set.hpp"
#include "store.hpp"

namespace hvd::inline v1 {

// What section 3 of hvd.h says about each.
enum class ReduceOp : hvd_reduce_op {
  kAverage = HVD_AVERAGE,
  kSum = HVD_SUM,
  kAdasum = HVD_ADASUM,
  kMin = HVD_MIN,
  kMax = HVD_MAX,
  kProduct = HVD_PRODUCT,
};

// As hvd_init_options. Everything left out comes from the environment.
struct InitOptions {
  int rank = -1;
  int size = 0;
  std::string rendezvous{};  // empty: "env:"
  // instead of a rendezvous; used until the context is open
  Store* store = nullptr;
  std::optional<std::chrono::nanoseconds> timeout{};           // none: the option start_timeout
  std::vector<std::pair<std::string, std::string>> options{};  // name, value
  // One line without a newline, from any thread of the context, one call at a time. It must not
  // throw or call the library. The context owns it; so a context with one is not to be ended inside
  // a callback of its own. Empty: standard error.
  std::function<void(hvd_log_level level, int rank, const char* component, const char* message)>
      log{};
};

// As hvd_op_options.
struct OpOptions {
  std::string name{};                   // empty: matched by the order of unnamed calls
  const ProcessSet* set = nullptr;      // all ranks
  ReduceOp reduce_op = ReduceOp::kSum;  // allreduce, reducescatter
  int priority = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  std::optional<std::chrono::nanoseconds> timeout{};  // none: the option op_timeout

  // Points into this object.
  hvd_op_options raw(int root = 0) const {
    hvd_op_options raw = HVD_OP_OPTIONS_INIT;
    raw.name = name.empty() ? nullptr : name.c_str();
    if (detail::has_null(name)) raw.name = "";  // which is refused
    raw.set = set != nullptr ? set->raw() : nullptr;
    raw.reduce_op = static_cast<hvd_reduce_op>(reduce_op);
    raw.priority = priority;
    raw.prescale = prescale;
    raw.postscale = postscale;
    raw.root = root;
    if (timeout) raw.timeout_ns = detail::nanoseconds_not_default(*timeout);
    return raw;
  }
};

}  // namespace hvd::inline v1
