// SPDX-License-Identifier: Apache-2.0
// hvd::Elastic in a job of one rank, whose members are fixed. Jobs whose ranks die are run by
// scripts/suites/elastic.py.
#include <gtest/gtest.h>
#include <hvd/hvd.hpp>

#include <array>
#include <vector>

namespace hvd {
namespace {

struct Counter {
  std::array<int, 1> step{};
  void synchronize(Context& job) { job.broadcast(step, 0, {.name = "step"}).wait(); }
};

// An operation that fails with ShutDownError.
void fail(Context& job) {
  job.shutdown();
  job.barrier().wait();
}

TEST(Elastic, GoesBackToTheLatestCommit) {
  std::vector<int> begun;
  Elastic<Counter> elastic{Counter()};
  const int result = elastic.run([&](Elastic<Counter>& here) {
    begun.push_back(here.state.step[0]);
    while (here.state.step[0] < 10) {
      ++here.state.step[0];
      if (here.state.step[0] == 5 && begun.size() == 1) fail(here.job());
      if (here.state.step[0] % 2 == 0) here.commit();
    }
    return here.state.step[0];
  });
  EXPECT_EQ(begun, (std::vector<int>{0, 4}));
  EXPECT_EQ(result, 10);
  EXPECT_EQ(elastic.job().size(), 1);
}

TEST(Elastic, ThrowsTheThirdFailureWithoutACommit) {
  int calls = 0;
  Elastic<Counter> elastic{Counter()};
  EXPECT_THROW(elastic.run([&](Elastic<Counter>& here) {
    ++calls;
    if (calls == 2) here.commit();
    fail(here.job());
  }),
               ShutDownError);
  EXPECT_EQ(calls, 4);
}

TEST(Elastic, ThrowsWhatIsNoFailureOfAnOperation) {
  Elastic<Counter> elastic{Counter()};
  int calls = 0;
  EXPECT_THROW(elastic.run([&](Elastic<Counter>& here) {
    ++calls;
    here.job().option("nonsense");
  }),
               UsageError);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace hvd
