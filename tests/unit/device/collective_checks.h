// SPDX-License-Identifier: Apache-2.0
// Every collective on tensors of a device, whichever way they go.
#pragma once

#include "device_tensors.h"

namespace hvd::testing {

using Submit = hvd_status (*)(hvd_context*, const hvd_tensor*, const hvd_tensor*,
                              const hvd_op_options*, hvd_handle**, hvd_error*);

inline hvd_handle* submit(const Job& job, const Device& device, Submit start, void* in,
                          size_t count, void* out = nullptr, size_t out_count = 0,
                          int32_t root = 0) {
  const int64_t length[] = {static_cast<int64_t>(count), static_cast<int64_t>(out_count)};
  const hvd_tensor input = device.tensor(in, &length[0]);
  const hvd_tensor output = device.tensor(out, &length[1]);
  hvd_op_options options = device.options("op");
  options.root = root;
  hvd_handle* handle = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(start(job.get(), &input, out == nullptr ? nullptr : &output, &options, &handle, &error),
            HVD_OK)
      << error.message;
  return handle;
}

inline Floats values(size_t count, int rank) { return Floats(count, static_cast<float>(rank + 1)); }

inline float sum_of(int ranks) { return static_cast<float>(ranks * (ranks + 1) / 2); }

inline void check_reductions(const Job& job, Device& device) {
  const int n = job.size(), me = job.rank();
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'000}}) {
    const Floats expected(count, sum_of(n));
    EXPECT_EQ(result_of(device, submit(job, device, hvd_allreduce_async,
                                       device.filled(values(count, me)), count)),
              expected);
    void* out = device.memory(count);
    EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, device.filled(values(count, me)),
                               count, out, count))
                  .status,
              HVD_OK);
    EXPECT_EQ(device.read(out, count), expected);
    void* in_place = device.filled(values(count, me));
    EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, in_place, count, in_place, count))
                  .status,
              HVD_OK);
    EXPECT_EQ(device.read(in_place, count), expected);
  }
  const size_t rows = static_cast<size_t>(3 * n + 1);  // uneven
  const Floats mine(static_cast<size_t>(me == 0 ? 4 : 3), sum_of(n));
  EXPECT_EQ(result_of(device, submit(job, device, hvd_reducescatter_async,
                                     device.filled(values(rows, me)), rows)),
            mine);
}

inline void check_moves(const Job& job, Device& device) {
  const int n = job.size(), me = job.rank();
  Floats all;
  for (int r = 0; r < n; ++r)
    all.insert(all.end(), static_cast<size_t>(10 * r), static_cast<float>(r + 1));
  const size_t mine = static_cast<size_t>(10 * me);  // none of rank 0
  EXPECT_EQ(result_of(device, submit(job, device, hvd_allgatherv_async,
                                     device.filled(values(mine, me)), mine)),
            all);

  const Floats roots = values(5000, n - 1);
  void* buffer = device.filled(values(5000, me));
  EXPECT_EQ(
      Job::wait(submit(job, device, hvd_broadcast_async, buffer, 5000, buffer, 5000, n - 1)).status,
      HVD_OK);
  EXPECT_EQ(device.read(buffer, 5000), roots);
  void* input = me == n - 1 ? device.filled(roots) : nullptr;  // read on the root only
  EXPECT_EQ(
      result_of(device, submit(job, device, hvd_broadcast_async, input, 5000, nullptr, 0, n - 1)),
      roots);

  Floats rows, received;
  for (int r = 0; r < n; ++r) {
    rows.insert(rows.end(), 2, static_cast<float>(100 * me + r));
    received.insert(received.end(), 2, static_cast<float>(100 * r + me));
  }
  const int64_t length = 2 * n;
  const hvd_tensor tensor = device.tensor(device.filled(rows), &length);
  const hvd_op_options options = device.options("op");
  hvd_handle* handle = nullptr;
  ASSERT_EQ(hvd_alltoallv_async(job.get(), &tensor, nullptr, nullptr, &options, &handle, nullptr),
            HVD_OK);
  EXPECT_EQ(result_of(device, handle), received);
}

inline void check_group(const Job& job, Device& device) {
  const int n = job.size(), me = job.rank();
  const int64_t lengths[] = {7, 20'000, 0};
  std::vector<hvd_tensor> tensors;
  for (const int64_t& length : lengths) {
    const Floats filled = values(static_cast<size_t>(length), me);
    tensors.push_back(device.tensor(length == 0 ? nullptr : device.filled(filled), &length));
  }
  hvd_op_options options = device.options("group");
  options.reduce_op = HVD_AVERAGE;
  hvd_handle* handle = nullptr;
  ASSERT_EQ(hvd_grouped_allreduce_async(job.get(), tensors.data(), tensors.data(), 3, &options,
                                        &handle, nullptr),
            HVD_OK);
  EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  for (size_t i = 0; i < 2; ++i) {
    const auto count = static_cast<size_t>(lengths[i]);
    EXPECT_EQ(device.read(tensors[i].data, count),
              Floats(count, sum_of(n) / static_cast<float>(n)));
  }
}

}  // namespace hvd::testing
