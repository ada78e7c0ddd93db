// SPDX-License-Identifier: Apache-2.0
// What our kernels add to NCCL: tensors of one allreduce in one call, and scales that it has not.
#include "kernel_ranks.h"

namespace hvd::testing {
namespace {

TEST_F(WithKernels, IntegersAreDividedAsOnTheCpu) {
  run(3, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    fake_nccl::take_calls(device.id());
    hvd_op_options options = device.options("average");
    options.reduce_op = HVD_AVERAGE;
    const int32_t mine[] = {1, -5, 500'000'000 + job.rank(), job.rank()};
    const auto result = reduce<int32_t>(job, device, HVD_INT32,
                                        {{mine[0]}, {mine[1], mine[2]}, {mine[3]}}, options);
    const std::vector<std::vector<int32_t>> expected = {{1}, {-5, 500'000'001}, {1}};
    EXPECT_EQ(result, expected);
    const auto small = reduce<int8_t>(job, device, HVD_INT8, {{7, -7, 0}}, options);
    EXPECT_EQ(small, (std::vector<std::vector<int8_t>>{{7, -7, 0}}));
    EXPECT_EQ(count_of(fake_nccl::take_calls(device.id()), "ncclAllReduce"), 2u);
  });
}

TEST_F(WithKernels, ScalesBeforeAndAfter) {
  fake_cuda::take_calls();
  run(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    hvd_op_options options = device.options("scaled");
    options.prescale = 0.5;
    options.postscale = 10;
    options.reduce_op = HVD_SUM;
    const int64_t me = job.rank();
    // 3/2 + 4/2 and 7/2 + 8/2, each half cut off before the sum.
    EXPECT_EQ(reduce<int64_t>(job, device, HVD_INT64, {{3 + me}, {7 + me, 100}}, options),
              (std::vector<std::vector<int64_t>>{{30}, {70, 1000}}));
    options.postscale = 2;  // each cuts off, though their product is 1
    EXPECT_EQ(reduce<int64_t>(job, device, HVD_INT64, {{3 + me}}, options),
              (std::vector<std::vector<int64_t>>{{6}}));
    options.postscale = 10;
    options.reduce_op = HVD_MAX;
    EXPECT_EQ(reduce<float>(job, device, HVD_FLOAT32, {{3.0f + static_cast<float>(me)}}, options),
              (std::vector<std::vector<float>>{{20.0f}}));
    options.reduce_op = HVD_PRODUCT;
    EXPECT_EQ(reduce<float>(job, device, HVD_FLOAT32, {{2.0f, 4.0f}, {6.0f}}, options),
              (std::vector<std::vector<float>>{{10.0f, 40.0f}, {90.0f}}));
  });
  EXPECT_EQ(count_of(fake_cuda::take_calls(), "cuMemcpy"), 2u * 2 * 2)
      << "only the meetings' tensors go through host memory";
}

// A tensor that is not small is not copied, and more small ones than the buffer holds take another
// round.
TEST_F(WithKernels, LargeOnesAndMoreThanTheBuffer) {
  run(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    fake_nccl::take_calls(device.id());
    hvd_op_options options = device.options("many");
    options.reduce_op = HVD_SUM;
    std::vector<Floats> tensors;
    for (int i = 0; i < 40; ++i)
      tensors.push_back(
          Floats((1 << 18) - static_cast<size_t>(i), static_cast<float>(i + job.rank())));
    tensors.insert(tensors.begin() + 7, Floats((1 << 18) + 1, 0.5f));
    tensors.insert(tensors.begin() + 9, Floats());
    const std::vector<Floats> results = reduce<float>(job, device, HVD_FLOAT32, tensors, options);
    ASSERT_EQ(results.size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].empty()) continue;
      const bool large = tensors[i].size() > (1 << 18);
      const float expected = large ? 1.0f : 2 * tensors[i][0] + (job.rank() == 0 ? 1.0f : -1.0f);
      EXPECT_EQ(results[i], Floats(tensors[i].size(), expected)) << i;
    }
    const std::vector<std::string> calls = fake_nccl::take_calls(device.id());
    EXPECT_EQ(count_of(calls, "ncclAllReduce"), 3u) << "two rounds, and the large one";
    EXPECT_EQ(count_of(calls, "ncclAllReduce float32 262145 "), 1u);
  });
}

TEST_F(WithKernels, AReducescatterIsScaledAfterwards) {
  run(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    fake_nccl::take_calls(device.id());
    const int32_t mine[] = {10 + job.rank(), 21, 30, 43, 50 + job.rank()};
    void* in = device.memory(5);
    void* out = device.memory(3);
    fake_cuda::launch(device.stream(), 500,
                      [&] { std::memcpy(fake_cuda::shadow(in), mine, sizeof mine); });
    const int64_t length = 5;
    const int64_t part = job.rank() == 0 ? 3 : 2;
    const hvd_tensor input = {in, &length, 1, HVD_INT32, HVD_CUDA, device.id(), {0, 0}};
    const hvd_tensor output = {out, &part, 1, HVD_INT32, HVD_CUDA, device.id(), {0, 0}};
    hvd_op_options options = device.options("scatter");
    options.reduce_op = HVD_AVERAGE;
    hvd_handle* handle = nullptr;
    ASSERT_EQ(hvd_reducescatter_async(job.get(), &input, &output, &options, &handle, nullptr),
              HVD_OK);
    EXPECT_EQ(Job::wait(handle).status, HVD_OK);
    std::vector<int32_t> found(static_cast<size_t>(part));
    fake_cuda::launch(device.stream(), 0,
                      [&] { std::memcpy(found.data(), fake_cuda::shadow(out), found.size() * 4); });
    fake_cuda::synchronize(device.stream());
    EXPECT_EQ(found, job.rank() == 0 ? (std::vector<int32_t>{10, 21, 30})
                                     : (std::vector<int32_t>{43, 50}));
    EXPECT_EQ(count_of(fake_nccl::take_calls(device.id()), "ncclReduce"), 2u);
  });
}

// An address that splits elements is no trap for kernels and library: it goes through host memory
// on this rank.
TEST_F(WithKernels, AnAddressThatSplitsElements) {
  run(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    char* memory = static_cast<char*>(device.memory(11)) + (job.rank() == 1 ? 2 : 0);
    fake_cuda::launch(device.stream(), 500, [memory] {
      const Floats ones(10, 1.0f);
      std::memcpy(fake_cuda::shadow(memory), ones.data(), 40);
    });
    EXPECT_EQ(Job::wait(submit(job, device, hvd_allreduce_async, memory, 10, memory, 10)).status,
              HVD_OK);
    EXPECT_EQ(device.read(memory, 10), Floats(10, 2.0f));
  });
}

// All do without if one must, and say why.
TEST_F(WithKernels, OneRankHasNone) {
  fake_cuda::take_calls();
  const std::string url = fresh_url();
  Lines lines("device");
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      Job job;
      const Job::Settings settings = {{"log_level", "info"},
                                      {"cuda_kernels", rank == 1 ? "none" : kKernelFile}};
      ASSERT_EQ(job.open(url, rank, 2, settings, &Lines::take, &lines).status, HVD_OK);
      Device device(rank);
      meet(job, device);
      fake_nccl::take_calls(device.id());
      check_group(job, device);
      check_reductions(job, device);
      EXPECT_GT(count_of(fake_nccl::take_calls(device.id()), "ncclAllReduce"), 0u);
      EXPECT_EQ(job.close().status, HVD_OK);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const std::vector<std::string> said = lines.sorted();
  ASSERT_EQ(said.size(), 2u);
  for (const std::string& line : said) {
    EXPECT_NE(line.find("go through NCCL 2.27.3 ("), std::string::npos) << line;
    EXPECT_NE(line.find(", without kernels: rank 1 ("), std::string::npos) << line;
    EXPECT_TRUE(line.ends_with("): cuda_kernels is none")) << line;
  }
  EXPECT_EQ(count_of(fake_cuda::take_calls(), "cuLaunchKernel"), 0u);
}

TEST_F(WithKernels, NoMemoryForTheBuffer) {
  constexpr int kOutOfMemory = 2;
  fake_cuda::fail("cuMemAlloc", kOutOfMemory, 1);  // one rank has enough
  const std::vector<std::string> said = run_logged(2,
                                                   [](Job& job) {
                                                     Device device(job.rank());
                                                     meet(job, device);
                                                     check_group(job, device);
                                                   },
                                                   {{"cuda_kernels", kKernelFile}});
  fake_cuda::fail("cuMemAlloc", 0);
  ASSERT_EQ(said.size(), 2u);
  for (const std::string& line : said) {
    EXPECT_NE(line.find("go through NCCL 2.27.3 ("), std::string::npos) << line;
    EXPECT_NE(line.find(", without kernels: rank "), std::string::npos) << line;
    EXPECT_NE(line.find("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace hvd::testing
