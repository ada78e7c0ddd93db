// SPDX-License-Identifier: Apache-2.0
// Every operation of hvd.hpp, what it refuses, and what does not compile.
#include <array>
#include <numeric>

#include "unit/cpp/ranks.h"

namespace hvd::testing {
namespace {

static_assert(dtype_of<unsigned char> == HVD_UINT8 && dtype_of<signed char> == HVD_INT8 &&
              dtype_of<char> >= 0);
static_assert(dtype_of<std::uint16_t> == HVD_UINT16 && dtype_of<short> == HVD_INT16 &&
              dtype_of<int> == HVD_INT32);
static_assert(dtype_of<long> == HVD_INT64 && dtype_of<long long> == HVD_INT64 &&
              dtype_of<const float> == HVD_FLOAT32);
static_assert(dtype_of<double> == HVD_FLOAT64 && dtype_of<bool> == HVD_BOOL);
static_assert(dtype_of<Float16> == HVD_FLOAT16 && dtype_of<BFloat16> == HVD_BFLOAT16);
static_assert(dtype_of<unsigned> == HVD_UINT32 && dtype_of<std::uint64_t> == HVD_UINT64);
static_assert(!Element<long double> && !Element<void*>);

static_assert(std::is_constructible_v<Tensor<const float>, std::vector<float>&>);
static_assert(!std::is_constructible_v<Tensor<const float>, std::vector<float>>);

// Memory that would be gone before the operation has ended is refused by the compiler.
template <class T>
concept Takes =
    requires(Context& context, T&& tensor) { context.allreduce(std::forward<T>(tensor)); };
static_assert(Takes<std::vector<float>&> && Takes<std::span<float>> && Takes<Tensor<float>> &&
              Takes<std::array<int, 3>&>);
static_assert(!Takes<std::vector<float>> && !Takes<std::array<int, 3>>);
// in place: nothing to write to
static_assert(!Takes<const std::vector<float>&> && !Takes<std::span<const float>>);
static_assert(!Takes<std::vector<std::string>&> && !Takes<std::vector<bool>&>);

template <class T>
concept GivesResult = requires(T&& pending) { std::forward<T>(pending).template result<float>(); };
static_assert(GivesResult<Pending&> && !GivesResult<Pending>);
static_assert(!std::is_copy_constructible_v<Pending> && !std::is_copy_constructible_v<Context>);

TEST(CppOperations, AllreduceIntoAnotherTensorAndInPlace) {
  run_contexts(3, [](Context& job) {
    const std::vector<float> in(5, static_cast<float>(job.rank() + 1));
    std::vector<float> out(5);
    job.allreduce(in, out, {.name = "sum"}).wait();
    EXPECT_EQ(out, std::vector<float>(5, 6.0f));
    job.allreduce(out, {.name = "max", .reduce_op = ReduceOp::kMax, .postscale = 0.5}).wait();
    EXPECT_EQ(out, std::vector<float>(5, 3.0f));
    std::array<std::int64_t, 2> numbers{job.rank(), 10};
    job.allreduce(numbers).wait();
    EXPECT_EQ(numbers, (std::array<std::int64_t, 2>{3, 30}));
  });
}

TEST(CppOperations, ABurstIsAnnouncedAtItsEnd) {
  run_contexts(2, [](Context& job) {
    std::vector<std::array<float, 300>> data(20);
    std::vector<Pending> pending;
    {
      const auto together = job.burst();
      for (auto& each : data) {
        each.fill(1.0f);
        pending.push_back(job.allreduce(each, {.name = "burst" + std::to_string(pending.size())}));
      }
    }
    for (Pending& each : pending) each.wait();
    for (const auto& each : data) EXPECT_EQ(each[299], 2.0f);
    Context moved_from = std::move(job);
    const auto nothing = job.burst();
    job = std::move(moved_from);
  });
}

TEST(CppOperations, ShapesAreChecked) {
  run_contexts(2, [](Context& job) {
    std::vector<double> in(6, 1.0), out(6);
    job.allreduce(Tensor(std::span(in), {2, 3}), Tensor(std::span(out), {2, 3})).wait();
    EXPECT_EQ(out[5], 2.0);
    const auto wrong = job.try_allreduce(Tensor(std::span(in), {2, 3}), out);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().message(),
              "allreduce \"unnamed\": output: shape is [6]; [2, 3] is needed");
    const auto larger = job.try_allreduce(Tensor(std::span(in), {20, 3}));
    ASSERT_FALSE(larger);
    EXPECT_EQ(larger.error().message(), "tensor of 6 elements has shape [20, 3]");
  });
}

TEST(CppOperations, Grouped) {
  run_contexts(2, [](Context& job) {
    std::vector<float> a(3, 1.0f);
    std::vector<int> b(2, job.rank());
    const std::vector<float> fixed(3, 2.0f);
    job.grouped_allreduce(std::vector<AnyTensor>{a, b}, {.name = "two"}).wait();
    EXPECT_EQ(a[0], 2.0f);
    EXPECT_EQ(b[0], 1);
    const auto refused =
        job.try_grouped_allreduce(std::vector<AnyTensor>{a}, std::vector<AnyTensor>{fixed});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), "group \"unnamed\": output 0 is const");
    const auto fewer = job.try_grouped_allreduce(std::vector<AnyTensor>{a, b},
                                                 std::vector<AnyTensor>{a}, {.name = "two"});
    ASSERT_FALSE(fewer);
    EXPECT_EQ(fewer.error().message(), "group \"two\": 2 inputs, but 1 outputs");
    Pending gathered = job.grouped_allgather(std::vector<AnyTensor>{a, fixed});
    gathered.wait();
    ASSERT_EQ(gathered.result_count(), 2u);
    EXPECT_EQ(gathered.result<float>(1).data.size(), 6u);
    Pending scattered = job.grouped_reducescatter(std::vector<AnyTensor>{b});
    scattered.wait();
    EXPECT_EQ(scattered.result<int>().data[0], 2);
  });
}

TEST(CppOperations, ResultsThatTheLibraryAllocates) {
  run_contexts(3, [](Context& job) {
    const std::vector<std::int16_t> mine(static_cast<std::size_t>(2 * (job.rank() + 1)),
                                         static_cast<std::int16_t>(job.rank()));
    Pending gathered = job.allgather(Tensor(std::span(mine), {job.rank() + 1, 2}));
    gathered.wait();
    const Result<std::int16_t> all = gathered.result<std::int16_t>();
    EXPECT_EQ(std::vector<std::int64_t>(all.shape.begin(), all.shape.end()),
              (std::vector<std::int64_t>{6, 2}));
    EXPECT_EQ(all.data[11], 2);
    const auto wrong = gathered.try_result<float>();
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().message(), "result is int16, asked for as float32");
    EXPECT_EQ(gathered.try_result<std::int16_t>(1).error().status(), HVD_ERR_INVALID_ARGUMENT);

    Pending on_root = job.gather(Tensor(std::span(mine), {job.rank() + 1, 2}), 1);
    on_root.wait();
    const Result<std::int16_t> rows = on_root.result<std::int16_t>();
    EXPECT_EQ(rows.shape[0], job.rank() == 1 ? 6 : 0);
    EXPECT_EQ(rows.data.size(), job.rank() == 1 ? 12u : 0u);
    const std::vector<std::int64_t> none(3), each{1, 2, 3};
    EXPECT_EQ(on_root.received_splits(), job.rank() == 1 ? each : none);

    std::vector<int> send(6);
    std::iota(send.begin(), send.end(), 10 * job.rank());
    Pending dealt = job.alltoall(send, std::vector<std::int64_t>{1, 2, 3});
    dealt.wait();
    EXPECT_EQ(dealt.received_splits(), std::vector<std::int64_t>(3, job.rank() + 1));
    EXPECT_EQ(dealt.result<int>().data[0], job.rank() == 0 ? 0 : job.rank() == 1 ? 1 : 3);
    const auto short_list = job.try_alltoall(send, std::vector<std::int64_t>{6});
    ASSERT_FALSE(short_list);
    EXPECT_EQ(short_list.error().message(),
              "alltoall \"unnamed\": 1 splits, but the process set has 3 ranks");

    Pending share = job.reducescatter(send);
    share.wait();
    EXPECT_EQ(share.result<int>().data.size(), 2u);
    EXPECT_EQ(share.result<int>().data[0], 30 + 6 * job.rank());
  });
}

TEST(CppOperations, ResultsInTensorsThatWereGiven) {
  run_contexts(2, [](Context& job) {
    const int rank = job.rank();
    std::vector<std::int64_t> mine{rank, 10}, all(4), dealt(2);
    job.allgather(mine, all).wait();
    EXPECT_EQ(all, (std::vector<std::int64_t>{0, 10, 1, 10}));
    // in place
    job.allgather(std::span(all).subspan(static_cast<std::size_t>(2 * rank), 2), all).wait();
    EXPECT_EQ(all, (std::vector<std::int64_t>{0, 10, 1, 10}));
    Pending pending = job.alltoall(mine, {}, dealt);
    pending.wait();
    EXPECT_EQ(dealt,
              (rank == 0 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{10, 10}));
    EXPECT_EQ(pending.result<std::int64_t>().data.data(), dealt.data());
    const std::vector<std::int64_t> splits{1, 1};
    // numbers of the same type as the elements are splits all the same
    job.alltoall(mine, splits).wait();
    job.alltoall(mine, splits, dealt).wait();
    std::vector<std::int64_t> one(1), from_root(2);
    job.reducescatter(mine, one, {.reduce_op = ReduceOp::kMax}).wait();
    EXPECT_EQ(one[0], rank == 0 ? 1 : 10);
    std::vector<std::int64_t> gathered_rows(rank == 0 ? 4 : 0);
    job.gather(mine, gathered_rows, 0).wait();
    EXPECT_EQ(gathered_rows,
              (rank == 0 ? std::vector<std::int64_t>{0, 10, 1, 10} : std::vector<std::int64_t>{}));
    job.broadcast(mine, from_root, 1).wait();
    EXPECT_EQ(from_root, (std::vector<std::int64_t>{1, 10}));
    EXPECT_EQ(mine[0], rank);
    std::vector<AnyTensor> in{mine}, out{from_root}, gathered{all}, scattered{one};
    job.grouped_allreduce(in, out).wait();
    EXPECT_EQ(from_root, (std::vector<std::int64_t>{1, 20}));
    job.grouped_allgather(in, gathered).wait();
    EXPECT_EQ(all, (std::vector<std::int64_t>{0, 10, 1, 10}));
    job.grouped_reducescatter(in, scattered).wait();
    EXPECT_EQ(one[0], rank == 0 ? 1 : 20);
  });
}

TEST(CppOperations, BroadcastJoinAndSets) {
  run_contexts(3, [](Context& job) {
    std::vector<BFloat16> data(4, {static_cast<std::uint16_t>(job.rank())});
    job.broadcast(data, 2).wait();
    EXPECT_EQ(data[3].bits, 2);
    ProcessSet set = job.create_process_set({2, 0});
    EXPECT_EQ(set.ranks(), (std::vector<std::int32_t>{0, 2}));
    EXPECT_EQ(set.included(), job.rank() != 1);
    EXPECT_EQ(job.find_process_set(set.id()).size(), 2);
    EXPECT_EQ(job.process_set_ids(), (std::vector<std::int32_t>{0, set.id()}));
    std::vector<float> one(1, 1.0f);
    if (set.included()) job.allreduce(one, {.set = &set}).wait();
    EXPECT_EQ(one[0], set.included() ? 2.0f : 1.0f);
    set.destroy();
    Pending joined = job.join();
    joined.wait();
    EXPECT_GE(joined.last_joined_rank(), 0);
    EXPECT_EQ(job.world().size(), 3);
  });
}

TEST(CppOperations, NamesWithNullCharactersAreRefused) {
  run_contexts(2, [](Context& job) {
    const std::string wanted = "the name \"a\\x00b\" has a null character";
    const OpOptions options{.name = std::string("a\0b", 3)};
    std::vector<float> data = {1, 2};
    const std::vector<AnyTensor> tensors = {data};
    const Expected<Pending> all[] = {job.try_allreduce(data, options),
                                     job.try_allreduce(data, kAllocate, options),
                                     job.try_broadcast(data, 1, options),
                                     job.try_grouped_allreduce(tensors, options),
                                     job.try_barrier(options),
                                     job.try_join(options)};
    for (const Expected<Pending>& refused : all) {
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().status(), HVD_ERR_INVALID_ARGUMENT);
      EXPECT_EQ(refused.error().message(), wanted);
    }
    job.allreduce(data, OpOptions{.name = "a"}).wait();  // the ranks go on
    EXPECT_EQ(data[1], 4);
  });
}

TEST(CppOperations, ErrorCatchesWhatIsThrown) {
  run_contexts(1, [](Context& job) {
    std::vector<float> data(4, 1.0f);
    Pending pending = job.allreduce(data, {.name = "in flight"});
    const auto caught = [](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        return error;
      }
      return Error(HVD_OK, "nothing was thrown");
    };
    EXPECT_STREQ(caught([&] { (void)job.find_process_set(7); }).name(), "HVD_ERR_NOT_FOUND");
    EXPECT_STREQ(caught([&] { (void)job.option("none"); }).name(), "HVD_ERR_NOT_FOUND");
    for (const hvd_status status :
         {HVD_ERR_MISMATCH, HVD_ERR_CANCELLED, HVD_ERR_TIMEOUT, HVD_ERR_SET_BROKEN,
          HVD_ERR_PEER_LOST, HVD_ERR_SHUT_DOWN, HVD_ERR_IO, HVD_ERR_INTERNAL}) {
      const Error error = caught([&] { Expected<void>(Error(status, "text", 3, 4)).value(); });
      EXPECT_EQ(error.status(), status);
      EXPECT_EQ(error.message(), "text");
      EXPECT_EQ(error.rank(), 3);
      EXPECT_EQ(error.sys_errno(), 4);
    }
    pending.wait();
  });
}

TEST(CppOperations, MismatchIsAnExceptionOfItsOwnAndTheNextOneWorks) {
  run_contexts(2, [](Context& job) {
    std::vector<float> data(static_cast<std::size_t>(job.rank() + 1), 1.0f);
    Pending odd = job.allreduce(data, {.name = "odd"});
    try {
      odd.wait();
      FAIL();
    } catch (const MismatchError& error) {
      EXPECT_STREQ(error.what(), "allreduce \"odd\": shape differs: rank 0 [1], rank 1 [2]");
      EXPECT_TRUE(error.error().is_operation());
      EXPECT_STREQ(error.error().name(), "HVD_ERR_MISMATCH");
    }
    data.resize(1);
    job.allreduce(data, {.name = "odd"}).wait();
    EXPECT_EQ(data[0], 2.0f);
  });
}

}  // namespace
}  // namespace hvd::testing
