// SPDX-License-Identifier: Apache-2.0
#include "faults/scenario.h"

#include <cstdint>
#include <cstdio>

#include "hvd/hvd.h"

namespace hvd::testing {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kSmall = 8;
constexpr int64_t kLarge = int64_t{1} << 16;

struct Buffers {
  float in[kLarge];
  float out[kLarge];
};

class Play {
 public:
  explicit Play(const Scenario& scenario) : scenario_(scenario) {}

  int run() {
    if (!open()) return stop(1);
    int step = 2;
    for (; step < 13; ++step) {
      if (!operate(step)) break;
    }
    const int wrong = stop(step);
    good(hvd_shutdown(context_, kSecond, &error_));
    hvd_context_free(context_);
    return wrong != 0 ? wrong : stop(20);
  }

 private:
  // False where the program has to stop: the call gave an error, or a wrong one.
  bool good(hvd_status status) {
    if (status == HVD_OK) return true;
    // A number that is none, or the end of a wait that has no end otherwise.
    wrong_ = wrong_ || !scenario_.may_fail || status == HVD_PENDING || status > 0 ||
             status == HVD_ERR_INVALID_ARGUMENT || status == HVD_ERR_ALREADY_EXISTS ||
             status == HVD_ERR_UNSUPPORTED;
    std::snprintf(last_, sizeof last_, "%s: %s", hvd_status_name(status), error_.message);
    return false;
  }
  bool right(bool condition) {
    wrong_ = wrong_ || !condition;
    if (!condition) std::snprintf(last_, sizeof last_, "wrong result");
    return condition;
  }
  int stop(int step) {
    if (wrong_) std::fprintf(stderr, "rank %d, step %d: %s\n", scenario_.rank, step, last_);
    return wrong_ ? step : 0;
  }

  bool open() {
    const hvd_option settings[] = {
        {"start_timeout", "4"}, {"op_timeout", "6"}, {"hostname", scenario_.host}};
    hvd_init_options options = HVD_INIT_OPTIONS_INIT;
    options.rank = scenario_.rank;
    options.size = scenario_.size;
    options.rendezvous = scenario_.rendezvous;
    options.options = settings;
    options.option_count = scenario_.host == nullptr ? 2 : 3;
    return good(hvd_init(&options, &context_, &error_));
  }

  bool ended(hvd_status submitted, hvd_handle* handle) {
    if (!good(submitted)) return false;
    const bool done = good(hvd_wait(handle, 15 * kSecond, &error_));
    hvd_handle_free(handle);
    return done;
  }

  hvd_tensor tensor(float* data, const int64_t* shape, int32_t ndim) {
    hvd_tensor tensor{};
    tensor.data = data;
    tensor.shape = shape;
    tensor.ndim = ndim;
    tensor.dtype = HVD_FLOAT32;
    tensor.device_type = HVD_CPU;
    return tensor;
  }

  bool allreduce(const char* name, int64_t length) {
    for (int64_t i = 0; i < length; ++i) buffers().in[i] = static_cast<float>(scenario_.rank + 1);
    const hvd_tensor in = tensor(buffers().in, &length, 1), out = tensor(buffers().out, &length, 1);
    hvd_op_options options = HVD_OP_OPTIONS_INIT;
    options.name = name;
    hvd_handle* handle = nullptr;
    const hvd_status submitted =
        hvd_allreduce_async(context_, &in, &out, &options, &handle, &error_);
    if (!ended(submitted, handle)) return false;
    const auto sum = static_cast<float>(scenario_.size * (scenario_.size + 1) / 2);
    return right(buffers().out[0] == sum && buffers().out[length - 1] == sum);
  }

  bool operate(int step) {
    const int64_t table[] = {scenario_.size, 4};
    hvd_op_options options = HVD_OP_OPTIONS_INIT;
    options.name = "step";
    hvd_handle* handle = nullptr;
    const hvd_tensor small = tensor(buffers().in, &kSmall, 1),
                     rows = tensor(buffers().in, table, 2);
    const hvd_tensor three[] = {small, small, small};
    hvd_status submitted = HVD_OK;
    switch (step) {
      case 2: return allreduce("small", kSmall);
      case 3: return allreduce("large", kLarge);
      case 4:
        submitted =
            hvd_grouped_allreduce_async(context_, three, nullptr, 3, &options, &handle, &error_);
        break;
      case 5:
        submitted = hvd_allgatherv_async(context_, &rows, nullptr, &options, &handle, &error_);
        break;
      case 6:
        submitted = hvd_broadcast_async(context_, &small, &small, &options, &handle, &error_);
        break;
      case 7:
        submitted =
            hvd_alltoallv_async(context_, &rows, nullptr, nullptr, &options, &handle, &error_);
        break;
      case 8:
        submitted = hvd_reducescatter_async(context_, &rows, nullptr, &options, &handle, &error_);
        break;
      case 9: submitted = hvd_barrier_async(context_, nullptr, &handle, &error_); break;
      case 10: return use_set();
      case 11: return allreduce("small", kSmall);
      default: submitted = hvd_join_async(context_, &options, &handle, &error_); break;
    }
    return ended(submitted, handle);
  }

  bool use_set() {
    const int32_t first[] = {0};
    hvd_process_set* set = nullptr;
    if (!good(hvd_process_set_create(context_, first, 1, &set, &error_))) return false;
    if (good(hvd_process_set_destroy(set, &error_))) return true;
    hvd_process_set_free(set);
    return false;
  }

  Buffers& buffers() const {
    static Buffers all[4];
    return all[scenario_.rank];
  }

  const Scenario& scenario_;
  hvd_context* context_ = nullptr;
  hvd_error error_ = HVD_ERROR_INIT;
  bool wrong_ = false;
  char last_[1200] = "";
};

}  // namespace

int play(const Scenario& scenario) { return Play(scenario).run(); }

}  // namespace hvd::testing
