// SPDX-License-Identifier: Apache-2.0
// Stores of large jobs, and Unix stores between users.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "hostile.h"
#include "rendezvous/target.h"
#include "rendezvous/tcp_store.h"
#include "rendezvous/unix_store.h"
#include "unit/time_scale.h"

namespace hvd::rendezvous {
namespace {

TEST(ManyRanks, SixtyFourAtOnce) {
  constexpr int kRanks = 64;
  const TcpUrl url = fresh_tcp_url();
  std::atomic<int> good{0};
  const Time start = now();
  std::vector<std::shared_ptr<RemoteStore>> stores(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto store = TcpStore::open(url, secret_settings(rank, kRanks, now() + 20s));
      ASSERT_TRUE(store.ok()) << store.status().message();
      stores[static_cast<size_t>(rank)] = store.value();
      ASSERT_TRUE(store.value()->set("rank/" + std::to_string(rank), "here").ok());
      for (int other = 0; other < kRanks; ++other) {
        ASSERT_TRUE(store.value()->get("rank/" + std::to_string(other), now() + 20s).ok());
      }
      ++good;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(good, kRanks);
  EXPECT_LT(now() - start, hvd::testing::scaled(15s));
  while (!stores.empty()) stores.pop_back();  // the server last
}

TEST(ManyRanks, AThousandAndTwentyFour) {
  constexpr int kRanks = 1025;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kNeeded = 2 * kRanks + 200;
  if (limit.rlim_max < kNeeded)
    GTEST_SKIP() << "needs " << kNeeded << " descriptors, allowed are " << limit.rlim_max;
  const rlimit before = limit;
  limit.rlim_cur = std::max(limit.rlim_cur, kNeeded);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const TcpUrl url = fresh_tcp_url();
  const Time start = now();
  StoreSettings settings = secret_settings(0, kRanks, start + 20s);
  std::vector<std::shared_ptr<RemoteStore>> stores;
  for (int rank = 0; rank < kRanks; ++rank) {
    settings.rank = rank;
    const auto store = TcpStore::open(url, settings);
    ASSERT_TRUE(store.ok()) << rank << ": " << store.status().message();
    stores.push_back(store.value());
  }
  for (int turn = 0; turn < 3; ++turn) {
    for (const auto& store : stores) ASSERT_TRUE(store->add("counter", 1).ok());
  }
  EXPECT_EQ(stores[0]->get("counter", now()).value(), std::to_string(3 * kRanks));
  EXPECT_LT(now() - start, hvd::testing::scaled(20s));
  while (!stores.empty()) stores.pop_back();  // the server last
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// R1 of the fault matrix: what strangers hold is the reserve for ranks.
TEST(ManyRanks, S7_StrangersDoNotTakeTheDescriptorsOfRanks) {
  const TcpUrl url = fresh_tcp_url();
  Children children;
  children.start([&] {
    // Room for the server, its own client, two ranks and hardly anybody else.
    const rlimit few{open_descriptors() + 7, open_descriptors() + 7};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 10;
    const auto store = TcpStore::open(url, secret_settings(0, 3, now() + 20s));
    if (!store.ok()) return 11;
    if (!store.value()->get("done", now() + 20s).ok()) return 12;
    return store.value()->server()->refused() >= 30 ? 0 : 13;
  });
  auto first = TcpStore::open(url, secret_settings(1, 3, now() + 10s));
  ASSERT_TRUE(first.ok()) << first.status().message();
  std::vector<Fd> strangers;
  for (int count = 0; count < 40; ++count) strangers.push_back(raw_connection(address_of(url)));
  ASSERT_TRUE(TcpStore::open(url, secret_settings(2, 3, now() + 10s)).ok());
  EXPECT_TRUE(first.value()->set("done", "").ok());
  first.value().reset();
  EXPECT_EQ(children.wait(), std::vector<int>{0});
}

// S5: both ends look whose process the other one is. Needs a second user, which root can be for a
// moment.
class OtherUser : public ::testing::Test {
 protected:
  static constexpr uid_t kOther = 12345;
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  }
};

// This thread only: seteuid() would change the server's as well.
long be(uid_t user) { return ::syscall(SYS_setresuid, -1, user, -1); }

TEST_F(OtherUser, S5_MayNotServe) {
  const std::string name = fresh_name();
  const Target target = Target::unix_name(name);
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), target.get(), target.size), 0);
  ASSERT_EQ(be(kOther), 0);
  const int listening = ::listen(listener.get(), 10);
  ASSERT_EQ(be(0), 0);
  ASSERT_EQ(listening, 0);
  const Status status = open_unix_store({name}, settings_of(1, 2, now() + 100ms)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_TRUE(status.message().ends_with(": " + target.text +
                                         ": belongs to user 12345, this process to user 0"))
      << status.message();
}

TEST_F(OtherUser, S5_MayNotJoin) {
  const std::string name = fresh_name();
  const Target target = Target::unix_name(name);
  LineCounter log;
  StoreSettings settings = settings_of(0, 2, now() + 10s);
  settings.log = log.logger();
  const auto server = open_unix_store({name}, settings).value();
  ASSERT_EQ(be(kOther), 0);
  const Fd stranger(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int connected = ::connect(stranger.get(), target.get(), target.size);
  ASSERT_EQ(be(0), 0);
  ASSERT_EQ(connected, 0);
  EXPECT_TRUE(is_closed_within(stranger, 2s));
  EXPECT_EQ(server->server()->refused(), 1u);
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("belongs to user 12345, this process to user 0"), std::string::npos)
      << log.lines()[0];
  EXPECT_TRUE(open_unix_store({name}, settings_of(1, 2, now() + 1s)).ok());
}

}  // namespace
}  // namespace hvd::rendezvous
