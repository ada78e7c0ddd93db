// SPDX-License-Identifier: Apache-2.0
// A reduction has the same bits on every way through the engine: in the announcement, alone, fused,
// in a group. Which way is taken may depend on what else is in flight, so a job that is run twice
// would otherwise give two results.
#include <random>

#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

// bfloat16, whose sums are rounded so much that every order shows
using Values = std::vector<uint16_t>;

Values random_values(size_t length, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Values values;
  for (size_t i = 0; i < length; ++i) {
    const float value = normal(generator);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    values.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return values;
}

// With `company` unrelated values in the same group, if any.
Values reduced(const Job& job, Values values, size_t company, double prescale) {
  Values others(company, 0x3f80);
  const int64_t lengths[] = {static_cast<int64_t>(values.size()), static_cast<int64_t>(company)};
  const hvd_tensor tensors[] = {tensor_of(values.data(), &lengths[0], 1, HVD_BFLOAT16),
                                tensor_of(others.data(), &lengths[1], 1, HVD_BFLOAT16)};
  hvd_op_options options = named("values");
  options.reduce_op = HVD_AVERAGE;
  options.prescale = prescale;
  hvd_handle* handle = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  const size_t count = company == 0 ? 1 : 2;
  EXPECT_EQ(
      hvd_grouped_allreduce_async(job.get(), tensors, tensors, count, &options, &handle, &error),
      HVD_OK)
      << error.message;
  const Failure failure = Job::wait(handle);
  EXPECT_EQ(failure.status, HVD_OK) << failure.message;
  return values;
}

void check_bits(Job& job) {
  for (const size_t length : {1, 37, 512}) {
    for (const double prescale : {1.0, 0.7}) {
      const Values values = random_values(
          length, static_cast<unsigned>(length) * 100 + static_cast<unsigned>(job.rank()));
      // small enough to travel with the announcement
      const Values alone = reduced(job, values, 0, prescale);
      for (const size_t company : {40000, 400000}) {
        EXPECT_EQ(reduced(job, values, company, prescale), alone)
            << length << " beside " << company;
      }
    }
  }
}

TEST(Bits, AreTheSameOnOneHost) { run_ranks(4, check_bits); }
TEST(Bits, AreTheSameOnTwoHosts) { run_hosts(2, 1, check_bits); }
TEST(Bits, AreTheSameOnHostsWithSeveralRanks) { run_hosts(2, 3, check_bits); }
TEST(Bits, AreTheSameWithoutHierarchy) {
  run_ranks(4, check_bits, [](int rank) {
    return Job::Settings{{"hostname", rank < 2 ? "a" : "b"}, {"hierarchical_allreduce", "0"}};
  });
}

}  // namespace
}  // namespace hvd::testing
