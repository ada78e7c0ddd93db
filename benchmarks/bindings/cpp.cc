// SPDX-License-Identifier: Apache-2.0
// What hvd.hpp costs over hvd.h: a synchronous allreduce in place of one rank, in turns through the
// one and the other. Prints a line of JSON per size; times are medians of batches, in nanoseconds
// of this thread's processor time per call. A single rank does all the work in the calling thread
// and never sleeps, so that on an idle machine the clock on the wall says the same, and on a busy
// one the others are left out.
#include <time.h>
#include <hvd/hvd.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kBatches = 101;
constexpr int kCalls = 2000;
constexpr std::size_t kSizes[] = {8, 4096};

void must(hvd_status status, const hvd_error& error) {
  if (status >= HVD_OK) return;
  std::fprintf(stderr, "%s\n", error.message);
  std::exit(1);
}

// As a C program does it that prepares what stays the same.
class Native {
 public:
  Native(hvd::Context& job, std::vector<float>& data)
      : context_(job.raw()), shape_(static_cast<std::int64_t>(data.size())) {
    tensor_ = {data.data(), &shape_, 1, HVD_FLOAT32, HVD_CPU, 0, {0, 0}};
    options_.name = "gradient";
  }
  void call() {
    hvd_handle* handle = nullptr;
    must(hvd_allreduce_async(context_, &tensor_, &tensor_, &options_, &handle, &error_), error_);
    must(hvd_wait(handle, -1, &error_), error_);
    hvd_handle_free(handle);
  }

 private:
  hvd_context* context_;
  std::int64_t shape_;
  hvd_tensor tensor_{};
  hvd_op_options options_ = HVD_OP_OPTIONS_INIT;
  hvd_error error_ = HVD_ERROR_INIT;
};

double processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <class Call>
double nanoseconds(Call&& call) {
  const double began = processor_time();
  for (int i = 0; i < kCalls; ++i) call();
  return (processor_time() - began) / kCalls;
}

double median(std::array<double, kBatches> times) {
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return times[kBatches / 2];
}

}  // namespace

int main() {
  hvd::Context job({.rank = 0, .size = 1, .rendezvous = "mem://bindings"});
  for (const std::size_t bytes : kSizes) {
    std::vector<float> data(bytes / sizeof(float), 1.0f);
    Native native(job, data);
    const auto api = [&] { job.allreduce(data, {.name = "gradient"}).wait(); };
    std::array<double, kBatches> native_times{}, api_times{};
    for (std::size_t batch = 0; batch < kBatches; ++batch) {
      native_times[batch] = nanoseconds([&] { native.call(); });
      api_times[batch] = nanoseconds(api);
    }
    std::printf("{\"language\": \"cpp\", \"bytes\": %zu, \"native_ns\": %.1f, \"api_ns\": %.1f}\n",
                bytes, median(native_times), median(api_times));
  }
}
