// SPDX-License-Identifier: Apache-2.0
// Every collective gives the right result with every number of ranks.
#include <numeric>

#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

using Floats = std::vector<float>;

Floats output_of(hvd_handle* handle) {
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(hvd_wait(handle, 20 * kSecond, &error), HVD_OK) << error.message;
  hvd_tensor out{};
  EXPECT_EQ(hvd_handle_output(handle, 0, &out, &error), HVD_OK) << error.message;
  size_t count = 1;
  for (int d = 0; d < out.ndim; ++d) count *= static_cast<size_t>(out.shape[d]);
  const auto* data = static_cast<const float*>(out.data);
  Floats values(data, data + count);
  hvd_handle_free(handle);
  return values;
}

using Submit = hvd_status (*)(hvd_context*, const hvd_tensor*, const hvd_tensor*,
                              const hvd_op_options*, hvd_handle**, hvd_error*);

Floats run(const Job& job, Submit submit, Floats in, int32_t root = 0) {
  const auto length = static_cast<int64_t>(in.size());
  const hvd_tensor tensor = tensor_of(in.data(), &length, 1, HVD_FLOAT32);
  hvd_op_options options = named("op");
  options.root = root;
  hvd_handle* handle = nullptr;
  EXPECT_EQ(submit(job.get(), &tensor, nullptr, &options, &handle, nullptr), HVD_OK);
  return output_of(handle);
}

void check_moves(const Job& job) {
  const int n = job.size(), me = job.rank();
  // Rank r gives r + 1 rows of value r.
  Floats expected;
  for (int r = 0; r < n; ++r)
    expected.insert(expected.end(), static_cast<size_t>(r + 1), static_cast<float>(r));
  const Floats mine(static_cast<size_t>(me + 1), static_cast<float>(me));
  EXPECT_EQ(run(job, hvd_allgatherv_async, mine), expected);
  EXPECT_EQ(run(job, hvd_gatherv_async, mine, n / 2), me == n / 2 ? expected : Floats());
  EXPECT_EQ(run(job, hvd_broadcast_async, Floats(5, static_cast<float>(me)), n - 1),
            Floats(5, static_cast<float>(n - 1)));
  // Two rows for each rank, 100 * sender + receiver.
  Floats rows, received;
  for (int r = 0; r < n; ++r) {
    rows.insert(rows.end(), 2, static_cast<float>(100 * me + r));
    received.insert(received.end(), 2, static_cast<float>(100 * r + me));
  }
  const int64_t length = 2 * n;
  const hvd_tensor tensor = tensor_of(rows.data(), &length, 1, HVD_FLOAT32);
  const hvd_op_options options = named("op");
  hvd_handle* handle = nullptr;
  EXPECT_EQ(hvd_alltoallv_async(job.get(), &tensor, nullptr, nullptr, &options, &handle, nullptr),
            HVD_OK);
  EXPECT_EQ(output_of(handle), received);
}

void check_reductions(const Job& job) {
  const int n = job.size(), me = job.rank();
  const float all = static_cast<float>(n * (n + 1) / 2);
  for (const size_t length : {size_t{1}, size_t{1000}, size_t{70000}}) {
    EXPECT_EQ(run(job, hvd_allreduce_async, Floats(length, static_cast<float>(me + 1))),
              Floats(length, all));
  }
  // n + 1 rows: the first rank gets two.
  Floats in(static_cast<size_t>(n + 1));
  std::iota(in.begin(), in.end(), 1.0f);
  const Floats mine = me == 0 ? (n == 1 ? Floats{1, 2} : Floats{1.0f * n, 2.0f * n})
                              : Floats{static_cast<float>((me + 2) * n)};
  EXPECT_EQ(run(job, hvd_reducescatter_async, in), mine);
}

TEST(Collectives, AllRightWithOneToSixteenRanks) {
  for (int size = 1; size <= 16; ++size) {
    SCOPED_TRACE(size);
    run_ranks(size, [](Job& job) {
      check_moves(job);
      check_reductions(job);
      EXPECT_EQ(job.barrier("b").status, HVD_OK);
      hvd_handle* handle = nullptr;
      ASSERT_EQ(hvd_join_async(job.get(), nullptr, &handle, nullptr), HVD_OK);
      EXPECT_EQ(hvd_wait(handle, 20 * kSecond, nullptr), HVD_OK);
      int32_t last = -1;
      EXPECT_EQ(hvd_handle_last_joined_rank(handle, &last, nullptr), HVD_OK);
      EXPECT_TRUE(last >= 0 && last < job.size()) << last;
      hvd_handle_free(handle);
    });
  }
}

hvd_handle* start_unnamed(const Job& job, Floats& data) {
  const auto length = static_cast<int64_t>(data.size());
  const hvd_tensor tensor = tensor_of(data.data(), &length, 1, HVD_FLOAT32);
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.timeout_ns = 20 * kSecond;
  hvd_handle* handle = nullptr;
  EXPECT_EQ(hvd_allreduce_async(job.get(), &tensor, nullptr, &options, &handle, nullptr), HVD_OK);
  return handle;
}

// Ranks with batches of different numbers: what has no name is matched by its order after the join.
TEST(Collectives, UnnamedCallsMatchAgainAfterAJoin) {
  run_ranks(3, [](Job& job) {
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int batch = 0; batch < 3 * (job.rank() + 1); ++batch) {
        Floats one(1, 1.0f);
        EXPECT_EQ(output_of(start_unnamed(job, one)), Floats(1, static_cast<float>(3 - batch / 3)));
      }
      hvd_handle* joined = nullptr;
      ASSERT_EQ(hvd_join_async(job.get(), nullptr, &joined, nullptr), HVD_OK);
      // The second call is made while the join is in flight, the third after it.
      Floats during(2, 1.0f), after(3, 2.0f);
      hvd_handle* early = start_unnamed(job, during);
      EXPECT_EQ(hvd_wait(joined, 20 * kSecond, nullptr), HVD_OK);
      hvd_handle_free(joined);
      hvd_handle* late = start_unnamed(job, after);
      EXPECT_EQ(output_of(late), Floats(3, 6.0f));
      EXPECT_EQ(output_of(early), Floats(2, 3.0f));
    }
  });
}

}  // namespace
}  // namespace hvd::testing
