// SPDX-License-Identifier: Apache-2.0
// Ranks with our kernels beside NCCL.
#pragma once

#include <algorithm>
#include <set>

#include "nccl_ranks.h"

namespace hvd::testing {

class WithKernels : public Nccl {
 protected:
  // Once with a library that queues what it is given at once, and once with one that is in progress
  // for a while.
  static void run(int size, const std::function<void(Job&)>& body) {
    for (const int delay : {0, 3}) {
      fake_nccl::set_enqueue_delay(delay);
      run_ranks(size, body, [](int) { return Job::Settings{{"cuda_kernels", kKernelFile}}; });
    }
  }
};

inline size_t count_of(const std::vector<std::string>& calls, const std::string& part) {
  return static_cast<size_t>(
      std::count_if(calls.begin(), calls.end(),
                    [&](const std::string& call) { return call.find(part) != std::string::npos; }));
}

// Allreduces tensors of one dtype as one operation, in place; their elements afterwards.
template <class T>
std::vector<std::vector<T>> reduce(const Job& job, Device& device, hvd_dtype dtype,
                                   const std::vector<std::vector<T>>& tensors,
                                   hvd_op_options options) {
  std::vector<int64_t> lengths(tensors.size());
  std::vector<hvd_tensor> described;
  for (size_t i = 0; i < tensors.size(); ++i) {
    lengths[i] = static_cast<int64_t>(tensors[i].size());
    void* memory = device.memory(tensors[i].size() * sizeof(T) / sizeof(float) + 1);
    fake_cuda::launch(device.stream(), 200, [memory, values = tensors[i]] {
      std::copy(values.begin(), values.end(), static_cast<T*>(fake_cuda::shadow(memory)));
    });
    described.push_back({memory, &lengths[i], 1, dtype, HVD_CUDA, device.id(), {0, 0}});
  }
  hvd_handle* handle = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(hvd_grouped_allreduce_async(job.get(), described.data(), described.data(),
                                        described.size(), &options, &handle, &error),
            HVD_OK)
      << error.message;
  EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  std::vector<std::vector<T>> results(tensors);
  fake_cuda::launch(device.stream(), 0, [&] {
    for (size_t i = 0; i < results.size(); ++i) {
      std::copy_n(static_cast<const T*>(fake_cuda::shadow(described[i].data)), results[i].size(),
                  results[i].begin());
    }
  });
  fake_cuda::synchronize(device.stream());
  return results;
}

}  // namespace hvd::testing
