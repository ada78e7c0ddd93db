// SPDX-License-Identifier: Apache-2.0
// One rank of a job as a test uses it: hvd.h with less writing. Nothing here knows the inside of
// the library.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "hvd/hvd.h"

namespace hvd::testing {

inline constexpr int64_t kSecond = 1'000'000'000;

struct Failure {
  hvd_status status = HVD_OK;
  int rank = -1;
  std::string message;
};

inline Failure failure_of(hvd_status status, const hvd_error& error) {
  return {status, status < 0 ? error.rank : -1, status < 0 ? error.message : ""};
}

inline hvd_op_options named(const char* name, hvd_process_set* set = nullptr) {
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name;
  options.set = set;
  return options;
}

inline hvd_tensor tensor_of(void* data, const int64_t* shape, int ndim, hvd_dtype dtype) {
  return {data, shape, ndim, dtype, HVD_CPU, 0, {0, 0}};
}

class Job {
 public:
  using Settings = std::vector<std::pair<std::string, std::string>>;

  Job() = default;
  ~Job() { hvd_context_free(context_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Failure open(const std::string& url, int rank, int size, const Settings& settings = {},
               hvd_log_fn log = nullptr, void* log_data = nullptr) {
    std::vector<hvd_option> given;
    for (const auto& [name, value] : settings) given.push_back({name.c_str(), value.c_str()});
    hvd_init_options options = HVD_INIT_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.rendezvous = url.c_str();
    options.options = given.data();
    options.option_count = given.size();
    options.log_fn = log;
    options.log_user_data = log_data;
    hvd_error error = HVD_ERROR_INIT;
    rank_ = rank;
    size_ = size;
    return failure_of(hvd_init(&options, &context_, &error), error);
  }
  // A context that was made in another way.
  void adopt(hvd_context* context, int rank, int size) {
    context_ = context;
    rank_ = rank;
    size_ = size;
  }
  Failure close() {
    hvd_error error = HVD_ERROR_INIT;
    const hvd_status status = hvd_shutdown(context_, kSecond, &error);
    hvd_context_free(std::exchange(context_, nullptr));
    return failure_of(status, error);
  }
  Failure status() const {
    hvd_error error = HVD_ERROR_INIT;
    return failure_of(hvd_context_status(context_, &error), error);
  }
  hvd_context* get() const { return context_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Sums in place; data of any length.
  Failure sum(std::vector<float>& data, const char* name, hvd_process_set* set = nullptr) const {
    hvd_handle* handle = nullptr;
    const Failure failure = start_sum(data, named(name, set), &handle);
    return failure.status == HVD_OK ? wait(handle) : failure;
  }
  Failure start_sum(std::vector<float>& data, const hvd_op_options& options,
                    hvd_handle** handle) const {
    const auto length = static_cast<int64_t>(data.size());
    const hvd_tensor tensor = tensor_of(data.data(), &length, 1, HVD_FLOAT32);
    hvd_error error = HVD_ERROR_INIT;
    return failure_of(hvd_allreduce_async(context_, &tensor, &tensor, &options, handle, &error),
                      error);
  }
  Failure barrier(const char* name, hvd_process_set* set = nullptr) const {
    const hvd_op_options options = named(name, set);
    hvd_error error = HVD_ERROR_INIT;
    hvd_handle* handle = nullptr;
    const Failure failure =
        failure_of(hvd_barrier_async(context_, &options, &handle, &error), error);
    return failure.status == HVD_OK ? wait(handle) : failure;
  }
  // Waits and frees.
  static Failure wait(hvd_handle* handle, int64_t timeout = 20 * kSecond) {
    hvd_error error = HVD_ERROR_INIT;
    const Failure failure = failure_of(hvd_wait(handle, timeout, &error), error);
    hvd_handle_free(handle);
    return failure;
  }

 private:
  hvd_context* context_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace hvd::testing
