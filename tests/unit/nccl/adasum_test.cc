// SPDX-License-Identifier: Apache-2.0
// Adasum on devices: the CPU's results, to rounding.
#include <cmath>
#include <random>

#include "kernel_ranks.h"

namespace hvd::testing {
namespace {

class AdasumOnDevices : public WithKernels {};

hvd_op_options adasum(hvd_op_options options) {
  options.reduce_op = HVD_ADASUM;
  return options;
}

// The same tensors, from host memory.
template <class T>
std::vector<std::vector<T>> reduce_on_host(const Job& job, hvd_dtype dtype,
                                           std::vector<std::vector<T>> tensors,
                                           hvd_op_options options) {
  std::vector<int64_t> lengths(tensors.size());
  std::vector<hvd_tensor> described;
  for (size_t i = 0; i < tensors.size(); ++i) {
    lengths[i] = static_cast<int64_t>(tensors[i].size());
    described.push_back({tensors[i].data(), &lengths[i], 1, dtype, HVD_CPU, 0, {0, 0}});
  }
  options.name = "on the host";
  options.stream = nullptr;
  hvd_handle* handle = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  EXPECT_EQ(hvd_grouped_allreduce_async(job.get(), described.data(), described.data(),
                                        described.size(), &options, &handle, &error),
            HVD_OK)
      << error.message;
  EXPECT_EQ(Job::wait(handle).status, HVD_OK);
  return tensors;
}

template <class T>
std::vector<T> random_values(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.1, 1.0);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(normal(random));
  return values;
}

template <class T>
void expect_close(const std::vector<std::vector<T>>& found,
                  const std::vector<std::vector<T>>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    double worst = 0;
    for (size_t k = 0; k < found[i].size(); ++k) {
      worst = std::max(
          worst, std::fabs(static_cast<double>(found[i][k]) - static_cast<double>(expected[i][k])));
    }
    EXPECT_LE(worst, tolerance) << "tensor " << i << " of " << found[i].size();
  }
}

// `calls`: how often members exchange shares.
template <class T>
void check(const Job& job, Device& device, hvd_dtype dtype, const std::vector<size_t>& sizes,
           double tolerance, size_t calls = 1, double prescale = 1, double postscale = 1) {
  std::vector<std::vector<T>> tensors;
  for (const size_t size : sizes)
    tensors.push_back(random_values<T>(size, static_cast<unsigned>(100 * size + job.rank())));
  hvd_op_options options = adasum(device.options("adasum"));
  options.prescale = prescale;
  options.postscale = postscale;
  fake_nccl::take_calls(device.id());
  const auto found = reduce<T>(job, device, dtype, tensors, options);
  const std::vector<std::string> said = fake_nccl::take_calls(device.id());
  EXPECT_EQ(count_of(said, "ncclSend"), calls * static_cast<size_t>(job.size()));
  EXPECT_EQ(count_of(said, "ncclAllReduce float64"), 1u);
  expect_close(found, reduce_on_host<T>(job, dtype, tensors, options), tolerance);
}

TEST_F(AdasumOnDevices, LikeTheCpu) {
  for (int size = 2; size <= kDevices; ++size) {
    fake_cuda::take_calls();
    run(size, [](Job& job) {
      Device device(job.rank());
      meet(job, device);
      check<float>(job, device, HVD_FLOAT32, {1, 1000, 0, 33'000, 3}, 1e-5);
      check<double>(job, device, HVD_FLOAT64, {5, 70'001}, 1e-13);
      check<float>(job, device, HVD_FLOAT32, {400, 7}, 1e-5, 1, 0.5, 3.0);
    });
    EXPECT_EQ(count_of(fake_cuda::take_calls(), "cuMemcpy"), static_cast<size_t>(2 * 2 * size))
        << "the meetings' only";
  }
}

// Half precision, as bits: what is equal on all ranks is its own Adasum, and what is orthogonal is
// added.
TEST_F(AdasumOnDevices, Halves) {
  run(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    const auto one_of = [&](hvd_dtype dtype, uint16_t one) {
      std::vector<uint16_t> mine(300, 0);
      for (size_t i = 0; i < mine.size(); ++i)
        mine[i] = i % 2 == static_cast<size_t>(job.rank()) ? one : uint16_t{0};
      const std::vector<uint16_t> same(77, one);
      EXPECT_EQ(
          reduce<uint16_t>(job, device, dtype, {mine, same}, adasum(device.options("halves"))),
          (std::vector<std::vector<uint16_t>>{std::vector<uint16_t>(300, one), same}));
    };
    one_of(HVD_FLOAT16, 0x3c00);
    one_of(HVD_BFLOAT16, 0x3f80);
  });
}

// What goes through the buffer in several rounds has its inner products from all of them.
TEST_F(AdasumOnDevices, MoreThanTheBuffer) {
  run(2, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    check<float>(job, device, HVD_FLOAT32, {10, 3'300'000, 20}, 1e-5, 4);
  });
}

// More tensors than a kernel takes, and one that all members have zeros in.
TEST_F(AdasumOnDevices, ManyTensors) {
  run(3, [](Job& job) {
    Device device(job.rank());
    meet(job, device);
    std::vector<size_t> sizes;
    for (size_t i = 0; i < 300; ++i) sizes.push_back(i);
    check<float>(job, device, HVD_FLOAT32, sizes, 1e-5);
    const Floats zeros(100, 0.0f);
    EXPECT_EQ(reduce<float>(job, device, HVD_FLOAT32, {zeros}, adasum(device.options("zeros"))),
              std::vector<Floats>{zeros});
  });
}

}  // namespace
}  // namespace hvd::testing
