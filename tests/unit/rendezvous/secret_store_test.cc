// SPDX-License-Identifier: Apache-2.0
// TCP stores of jobs with a secret.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "hostile.h"
#include "rendezvous/tcp_store.h"

namespace hvd::rendezvous {
namespace {

TEST(SecretStore, RanksMeet) {
  const TcpUrl url = fresh_tcp_url();
  std::vector<std::thread> threads;
  std::atomic<int64_t> sum{0};
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      const auto store = TcpStore::open(url, secret_settings(rank, 4, now() + 10s));
      ASSERT_TRUE(store.ok()) << store.status().message();
      sum += store.value()->add("arrivals", 1).value();
      while (store.value()->get("arrivals", now() + 10s).value() != "4")
        std::this_thread::sleep_for(1ms);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 1 + 2 + 3 + 4);
}

TEST(SecretStore, LargeValuesBothWays) {
  const TcpUrl url = fresh_tcp_url();
  const auto server = TcpStore::open(url, secret_settings(0, 2, now() + 10s)).value();
  const auto client = TcpStore::open(url, secret_settings(1, 2, now() + 10s)).value();
  std::string value(kMaxValue, 'v');
  for (size_t at = 0; at < value.size(); ++at) value[at] = static_cast<char>(at * 7 + at / 251);
  ASSERT_TRUE(client->set("key", value).ok());
  EXPECT_EQ(server->get("key", now() + 10s).value(), value);
}

}  // namespace
}  // namespace hvd::rendezvous
