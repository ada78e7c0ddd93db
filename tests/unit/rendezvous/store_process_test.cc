// SPDX-License-Identifier: Apache-2.0
// Stores between processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "places.h"
#include "rendezvous/open_store.h"
#include "unit/time_scale.h"

namespace hvd::rendezvous {
namespace {

class BetweenProcesses : public ::testing::TestWithParam<const char*> {
 protected:
  Url url() const {
    if (std::string(GetParam()) == "file") return FileUrl{directory_.path() + "/store"};
    if (std::string(GetParam()) == "unix") return UnixUrl{name_};
    return tcp_;
  }

 private:
  TemporaryDirectory directory_;
  TcpUrl tcp_ = fresh_tcp_url();
  std::string name_ = fresh_name();
};

// Exit codes name the step that failed.
int meet(const Url& url, int rank, int size) {
  const auto store = open_store(url, settings_of(rank, size, now() + 20s));
  if (!store.ok()) return 10;
  if (!store.value()->set("rank/" + std::to_string(rank), std::to_string(rank * rank)).ok())
    return 11;
  for (int other = 0; other < size; ++other) {
    const auto got = store.value()->get("rank/" + std::to_string(other), now() + 20s);
    if (!got.ok()) return 12;
    if (got.value() != std::to_string(other * other)) return 13;
  }
  for (int round = 0; round < 25; ++round) {
    if (!store.value()->add("counter", 1).ok()) return 14;
  }
  if (!store.value()->add("done", 1).ok()) return 15;
  for (const Time end = now() + 20s;
       store.value()->get("done", end).value() != std::to_string(size);) {
    if (now() > end) return 16;
    std::this_thread::sleep_for(1ms);
  }
  return store.value()->get("counter", now() + 5s).value() == std::to_string(25 * size) ? 0 : 17;
}

TEST_P(BetweenProcesses, EverybodyMeetsEverybody) {
  constexpr int kSize = 5;
  Children children;
  for (int rank = 1; rank < kSize; ++rank) {
    children.start([&] { return meet(url(), rank, kSize); });
  }
  // The others start first and wait for rank 0.
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(meet(url(), 0, kSize), 0);
  EXPECT_EQ(children.wait(), std::vector<int>(kSize - 1, 0));
}

TEST_P(BetweenProcesses, AKilledRankDisturbsNobody) {
  Children children;
  children.start([&] {
    const auto store = open_store(url(), settings_of(1, 3, now() + 20s));
    if (!store.ok() || !store.value()->set("waiting", "").ok()) return 1;
    return store.value()->get("never", kNever).ok() ? 2 : 3;
  });
  children.start([&] {
    const auto store = open_store(url(), settings_of(2, 3, now() + 20s));
    return store.ok() && store.value()->get("go", now() + 20s).ok() ? 0 : 1;
  });
  const auto store = open_store(url(), settings_of(0, 3, now() + 20s));
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE(store.value()->get("waiting", now() + 20s).ok());
  ::kill(children.pid(0), SIGKILL);
  EXPECT_TRUE(store.value()->set("go", "").ok());
  EXPECT_EQ(children.wait(), (std::vector<int>{-SIGKILL, 0}));
}

INSTANTIATE_TEST_SUITE_P(All, BetweenProcesses, ::testing::Values("file", "tcp", "unix"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TcpBetweenProcesses, TheOthersLearnThatRank0Died) {
  const TcpUrl url = fresh_tcp_url();
  Children children;
  children.start([&] {
    const auto store = open_store(url, settings_of(0, 2, now() + 20s));
    if (!store.ok()) return 1;
    static_cast<void>(store.value()->get("never", kNever));
    return 2;
  });
  const auto store = open_store(url, settings_of(1, 2, now() + 20s));
  ASSERT_TRUE(store.ok()) << store.status().message();
  ::kill(children.pid(0), SIGKILL);
  const Time start = now();
  const Status status = store.value()->get("never", kNever).status();
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_LT(now() - start, hvd::testing::scaled(5s));
  EXPECT_EQ(store.value()->set("key", "x").code(), Code::kIo);
  EXPECT_EQ(children.wait(), std::vector<int>{-SIGKILL});
}

TEST(TcpBetweenProcesses, AForkedChildDropsTheServerWithoutHarm) {
  const TcpUrl url = fresh_tcp_url();
  auto store = open_store(url, settings_of(0, 2, now() + 20s));
  ASSERT_TRUE(store.ok()) << store.status().message();
  Children children;
  children.start([&] {
    store = Status(Code::kShutDown, "child");
    return 0;
  });
  EXPECT_EQ(children.wait(), std::vector<int>{0});
  EXPECT_TRUE(store.value()->set("key", "x").ok());
}

}  // namespace
}  // namespace hvd::rendezvous
