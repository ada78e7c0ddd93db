// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tcp_store.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "hostile.h"
#include "unit/time_scale.h"

namespace hvd::rendezvous {
namespace {

TEST(TcpStore, WithoutAServerTheDeadlineCounts) {
  const TcpUrl url = fresh_tcp_url();
  const Time start = now();
  const Status status = TcpStore::open(url, settings_of(1, 4, start + 100ms)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  const std::string& message = status.message();
  EXPECT_EQ(message.find("store " + url.text() + ": no server in "), 0u) << message;
  EXPECT_TRUE(
      message.ends_with(" s: " + url.candidates[0].text() + ": connect: Connection refused (111)"))
      << message;
  EXPECT_GE(now() - start, 99ms);
  EXPECT_LT(now() - start, hvd::testing::scaled(5s));
}

TEST(TcpStore, ClientsWaitForTheServer) {
  const TcpUrl url = fresh_tcp_url();
  std::thread client([&] {
    const auto store = TcpStore::open(url, settings_of(1, 4, now() + 10s));
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(store.value()->set("key", "x").ok());
  });
  std::this_thread::sleep_for(50ms);
  {
    const auto store = TcpStore::open(url, settings_of(0, 4, now() + 10s));
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(store.value()->get("key", now() + 10s).ok());
  }
  client.join();
}

TEST(TcpStore, WithoutRanksTheFirstServes) {
  const TcpUrl url = fresh_tcp_url();
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      const auto store = TcpStore::open(url, settings_of(-1, 4, now() + 10s));
      ASSERT_TRUE(store.ok()) << store.status().message();
      sum += static_cast<int>(store.value()->add("arrivals", 1).value());
      while (store.value()->get("arrivals", now() + 10s).value() != "4")
        std::this_thread::sleep_for(1ms);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 1 + 2 + 3 + 4);
}

TEST(TcpStore, ATakenPortIsNamedAtTheDeadline) {
  const TcpUrl url = fresh_tcp_url();
  const auto first = TcpStore::open(url, settings_of(0, 4, now() + 10s));
  ASSERT_TRUE(first.ok());
  const Status status = TcpStore::open(url, settings_of(0, 4, now() + 50ms)).status();
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.message(), "store " + url.text() + ": bind " + url.candidates[0].text() +
                                  ": Address already in use (98)");
}

TEST(TcpStore, OfARangeOfPortsEachJobTakesTheFirstFreeOne) {
  TcpUrl url = fresh_tcp_url();
  const Candidate first = url.candidates[0];
  url.candidates = {first,
                    {first.host, fresh_tcp_url().candidates[0].port},
                    {first.host, fresh_tcp_url().candidates[0].port}};
  TcpUrl other = url;
  other.job = "other";
  const auto one = TcpStore::open(url, settings_of(0, 2, now() + 10s));
  const auto two = TcpStore::open(other, settings_of(0, 2, now() + 10s));
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_TRUE(one.value()->set("who", "one").ok() && two.value()->set("who", "two").ok());
  for (const auto& [wanted, name] : {std::pair(url, "one"), {other, "two"}}) {
    const auto client = TcpStore::open(wanted, settings_of(1, 2, now() + 10s));
    ASSERT_TRUE(client.ok()) << client.status().message();
    EXPECT_EQ(client.value()->get("who", now() + 10s).value(), name);
  }
}

TEST(TcpStore, AnotherJobIsNamedAtTheDeadline) {
  const TcpUrl url = fresh_tcp_url();
  const auto first = TcpStore::open(url, settings_of(0, 4, now() + 10s));
  ASSERT_TRUE(first.ok());
  const std::string named = ": the server there serves job \"job\"";
  std::string message;
  // The server's answer has to come before the deadline; on a loaded machine it takes its time.
  for (const Duration limit : {50ms, 500ms, 5000ms}) {
    const Status status =
        TcpStore::open({url.candidates, "other"}, settings_of(1, 4, now() + limit)).status();
    EXPECT_EQ(status.code(), Code::kTimeout);
    message = status.message();
    if (message.find(named) != std::string::npos) break;
  }
  EXPECT_NE(message.find(named), std::string::npos) << message;
}

TEST(TcpStore, JobsFollowEachOtherOnOnePort) {
  const TcpUrl url = fresh_tcp_url();
  for (int round = 0; round < 20; ++round) {
    const auto work = [&](int rank) {
      const auto store = TcpStore::open(url, settings_of(rank, 4, now() + 10s));
      ASSERT_TRUE(store.ok()) << store.status().message();
      const int64_t arrived = store.value()->add("arrived", 1).value();
      EXPECT_LE(arrived, 2) << "keys of the job before";
      while (store.value()->get("arrived", now() + 10s).value() != "2")
        std::this_thread::sleep_for(1ms);
    };
    // Rank 1 of the next round starts while rank 0 of this one still ends.
    std::thread other([&] { work(1); });
    work(0);
    other.join();
  }
}

// A client that leaves a little after the server was told to. True if it had its last words and the
// server then waited no longer.
bool ends_with_its_client() {
  const TcpUrl url = fresh_tcp_url();
  auto server = TcpStore::open(url, settings_of(0, 4, now() + 10s)).value();
  auto client = TcpStore::open(url, settings_of(1, 4, now() + 10s)).value();
  bool told = false;
  const Time start = now();
  std::thread finisher([&] {
    std::this_thread::sleep_for(100ms);
    told = client->set("last", "words").ok();
    client.reset();
  });
  server.reset();
  const Duration took = now() - start;
  finisher.join();
  EXPECT_GE(took, 90ms);
  return told && took < 1900ms;
}

TEST(TcpStore, TheServerWaitsForItsClientsButNotForEver) {
  // A loaded machine may let a thread stand still for as long as the server waits.
  EXPECT_TRUE(ends_with_its_client() || ends_with_its_client() || ends_with_its_client());

  const TcpUrl url = fresh_tcp_url();
  auto server = TcpStore::open(url, settings_of(0, 4, now() + 10s)).value();
  const auto client = TcpStore::open(url, settings_of(1, 4, now() + 10s)).value();
  const Time start = now();
  server.reset();
  EXPECT_GE(now() - start, 1900ms);
  EXPECT_LT(now() - start, hvd::testing::scaled(10s));
  EXPECT_EQ(client->set("key", "x").code(), Code::kIo);
}

TEST(TcpStore, GarbageDisturbsNobody) {
  const TcpUrl url = fresh_tcp_url();
  const auto store = TcpStore::open(url, settings_of(0, 4, now() + 10s)).value();
  ASSERT_TRUE(store->set("key", "value").ok());
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 100; ++round) {
    const Fd stranger = raw_connection(address_of(url));
    std::string garbage(1 + random() % 3000, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    if (round % 4 == 0) garbage = "GET /key HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static_cast<void>(::send(stranger.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL));
    if (round % 4 == 0) {
      EXPECT_TRUE(is_closed_within(stranger, 5s));
    }
    EXPECT_EQ(store->get("key", now() + 5s).value(), "value");
  }
}

}  // namespace
}  // namespace hvd::rendezvous
