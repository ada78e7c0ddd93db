// SPDX-License-Identifier: Apache-2.0
// Ranks as threads: the in-process fabric, and the fabric of processes inside one process.
#include <atomic>
#include <latch>
#include <random>

#include <poll.h>
#include <sys/eventfd.h>

#include "base/bell.h"
#include "transport/peer_info.h"
#include "unit/leftovers.h"
#include "unit/transport/world.h"

namespace hvd::transport::testing {
namespace {

enum class Place { kThreads, kSharedMemory, kTwoHosts };

class Anywhere : public ::testing::TestWithParam<Place> {
 protected:
  // Two "hosts" are two names: their ranks share no memory and connect by TCP.
  WorldOptions world() const {
    WorldOptions world;
    world.in_process = GetParam() != Place::kSharedMemory;
    if (GetParam() != Place::kTwoHosts) return world;
    for (int rank = 0; rank < 16; ++rank)
      world.hosts.push_back(rank % 2 == 0 ? "127.0.0.1" : "127.0.0.2");
    return world;
  }
  bool one_host() const { return GetParam() != Place::kTwoHosts; }
};
class OneHost : public Anywhere {};

std::string name_of(const ::testing::TestParamInfo<Place>& place) {
  return place.param == Place::kThreads    ? "Threads"
         : place.param == Place::kTwoHosts ? "TwoHosts"
                                           : "SharedMemory";
}
INSTANTIATE_TEST_SUITE_P(Fabric, Anywhere,
                         ::testing::Values(Place::kThreads, Place::kSharedMemory, Place::kTwoHosts),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Fabric, OneHost, ::testing::Values(Place::kThreads, Place::kSharedMemory),
                         name_of);

std::string text_of(int from, int to, int number, size_t size) {
  std::string text =
      std::to_string(from) + ">" + std::to_string(to) + "#" + std::to_string(number) + ":";
  text.resize(std::max(text.size(), size), static_cast<char>('a' + number % 26));
  return text;
}

TEST_P(Anywhere, EveryPairKeepsOrderForEverySize) {
  for (int size = 1; size <= 16; size = size < 5 ? size + 1 : size * 2 - 2) {
    run_as_threads(size, world(), [size, here = one_host()](Fabric& fabric, int rank) {
      EXPECT_EQ(fabric.topology().rank(), rank);
      EXPECT_EQ(fabric.topology().local_size(), here            ? size
                                                : rank % 2 == 0 ? (size + 1) / 2
                                                                : size / 2);
      constexpr int kMessages = 60;
      std::mt19937 random(static_cast<unsigned>(rank));
      Recorder sink;
      for (int number = 0; number < kMessages; ++number) {
        for (int peer = 0; peer < size; ++peer) {
          if (peer == rank) continue;
          const size_t length = number % 20 == 0 ? 150000 : random() % 3000;
          fabric.send(peer, bytes(text_of(rank, peer, number, length)), number % 2 == 0);
        }
        fabric.poll(sink);
      }
      const size_t expected = static_cast<size_t>(kMessages * (size - 1));
      EXPECT_TRUE(sleep_until(
          fabric, sink, [&] { return sink.messages.size() == expected; }, 30s))
          << rank << " of " << size << " got " << sink.messages.size();
      std::vector<int> next(static_cast<size_t>(size));
      for (const auto& [from, message] : sink.messages) {
        const int number = next[static_cast<size_t>(from)]++;
        EXPECT_EQ(message.substr(0, message.find(':')),
                  text_of(from, rank, number, 0).substr(0, message.find(':')));
      }
      EXPECT_TRUE(sink.losses.empty());
    });
  }
}

TEST_P(Anywhere, LargestMessageTravelsAndLargerIsNotSent) {
  run_as_threads(2, world(), [](Fabric& fabric, int rank) {
    Recorder sink;
    if (rank == 0) {
      fabric.send(1, bytes(std::string((16u << 20) + 1, 'y')), true);
      fabric.send(1, bytes(std::string(16u << 20, 'x')), true);
      fabric.send(1, bytes(""), true);
    }
    const size_t expected = rank == 0 ? 1 : 2;
    ASSERT_TRUE(sleep_until(fabric, sink, [&] {
      if (rank == 1 && sink.messages.size() == 2) fabric.send(0, bytes("done"), true);
      return sink.messages.size() >= expected;
    }));
    if (rank == 1) {
      EXPECT_EQ(sink.messages[0].second, std::string(16u << 20, 'x'));
      EXPECT_EQ(sink.messages[1].second, "");
    }
  });
}

// Each side sleeps before it answers; a lost wake-up would end in the time limit.
TEST_P(Anywhere, NoWakeUpIsLost) {
  run_as_threads(2, world(), [](Fabric& fabric, int rank) {
    constexpr size_t kRounds = 50000;  // two wake-ups each
    Recorder sink;
    fabric.set_interest(true);
    size_t got = 0;
    for (size_t round = 0; round < kRounds; ++round) {
      // With and without urgency; the interest announced above must do for the second.
      if (rank == 0) fabric.send(1, bytes("ping"), round % 2 == 0);
      ASSERT_TRUE(sleep_until(
          fabric, sink, [&] { return got + sink.messages.size() > round; }, 20s))
          << "round " << round;
      if (rank == 1) fabric.send(0, bytes("pong"), round % 2 == 1);
      got += sink.messages.size();
      sink.messages.clear();
    }
  });
}

// The same for a counter in lane memory and ring_sleepers().
TEST_P(OneHost, NoDoorbellIsLost) {
  run_as_threads(2, world(), [](Fabric& fabric, int rank) {
    Result<std::unique_ptr<Lane>> opened = fabric.open_lane(0, {0, 1}, 4096, now() + 10s);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    std::unique_ptr<Lane> lane = std::move(opened).value();
    auto* counters = reinterpret_cast<std::atomic<uint32_t>*>(lane->memory.data());
    std::atomic<uint32_t>& mine = counters[rank * 1024];
    std::atomic<uint32_t>& theirs = counters[(1 - rank) * 1024];
    Recorder sink;
    for (uint32_t round = 1; round <= 50000; ++round) {
      if (rank == 0) {
        mine.store(round, std::memory_order_release);
        lane->bell->ring_sleepers();
      }
      const auto there = [&] { return theirs.load(std::memory_order_acquire) >= round; };
      const Time end = now() + 20s;
      while (!there()) {
        ASSERT_LT(now(), end) << "round " << round;
        if (fabric.park_begin() && !there()) {
          pollfd entry{fabric.wait_fd(), POLLIN, 0};
          ::poll(&entry, 1, 20000);
        }
        fabric.park_end();
        fabric.poll(sink);
      }
      if (rank == 1) {
        mine.store(round, std::memory_order_release);
        lane->bell->ring_sleepers();
      }
    }
    fabric.close_lane(std::move(lane));
  });
}

TEST_P(OneHost, LaneMemoryIsSharedZeroedAndReusable) {
  run_as_threads(3, world(), [](Fabric& fabric, int rank) {
    Recorder sink;
    for (int round = 0; round < 5; ++round) {
      Result<std::unique_ptr<Lane>> opened = fabric.open_lane(7, {0, 1, 2}, 10000, now() + 10s);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      std::unique_ptr<Lane> lane = std::move(opened).value();
      ASSERT_EQ(lane->memory.size(), 30000u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(lane->memory.data()) % 4096, 0u);
      EXPECT_EQ(lane->me, rank);
      EXPECT_EQ(lane->hosts, 1);
      std::byte& mine = lane->memory[static_cast<size_t>(rank) * 10000 + 9999];
      EXPECT_EQ(mine, std::byte{0}) << "round " << round;
      mine = static_cast<std::byte>(rank + 1);
      // Meet by messages, look at the others' bytes, meet again, close, meet again.
      for (int step = 0; step < 3; ++step) {
        sink.messages.clear();
        if (step == 1) {
          for (size_t other = 0; other < 3; ++other) {
            EXPECT_EQ(lane->memory[other * 10000 + 9999], static_cast<std::byte>(other + 1));
          }
        }
        if (step == 2) fabric.close_lane(std::move(lane));
        if (rank == 0) {
          ASSERT_TRUE(sleep_until(fabric, sink, [&] { return sink.messages.size() == 2; }));
          fabric.send(1, bytes("go"), true);
          fabric.send(2, bytes("go"), true);
        } else {
          fabric.send(0, bytes("here"), true);
          ASSERT_TRUE(sleep_until(fabric, sink, [&] { return sink.messages.size() == 1; }));
        }
      }
    }
  });
}

TEST_P(OneHost, UninterestedSleeperIsLeftAloneUntilPokedOrUrgent) {
  std::latch parked(1);
  std::atomic<bool> poked{false};
  run_as_threads(2, world(), [&](Fabric& fabric, int rank) {
    Recorder sink;
    if (rank == 0) {
      ASSERT_TRUE(sleep_until(fabric, sink, [&] { return !sink.messages.empty(); }));
      parked.wait();
      fabric.send(1, bytes("when you like"), false);
      std::this_thread::sleep_for(100ms);  // a sleeper that is not left alone wakes up in this time
      poked = true;
      fabric.poke(1);
      ASSERT_TRUE(sleep_until(fabric, sink, [&] { return sink.messages.size() == 2; }));
      return;
    }
    fabric.send(0, bytes("sleeping"), true);
    const bool sleeps = fabric.park_begin();
    parked.count_down();
    ASSERT_TRUE(sleeps);
    pollfd entry{fabric.wait_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 10000), 1);
    EXPECT_TRUE(poked) << "woken by what was not urgent";
    fabric.park_end();
    ASSERT_TRUE(poll_until(fabric, sink, [&] { return sink.messages.size() == 1; }));
    fabric.send(0, bytes("awake"), true);
  });
}

TEST_P(Anywhere, InterruptWakesOwnSleeperOnceAndIsRemembered) {
  run_as_threads(1, world(), [](Fabric& fabric, int) {
    Recorder sink;
    ASSERT_TRUE(fabric.park_begin());
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      fabric.interrupt();
    });
    pollfd entry{fabric.wait_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 5000), 1);
    other.join();
    fabric.park_end();
    fabric.poll(sink);
    ASSERT_TRUE(fabric.park_begin());
    EXPECT_EQ(::poll(&entry, 1, 20), 0) << "the bell was not drained";
    fabric.park_end();
    fabric.interrupt();  // before the sleep
    fabric.park_begin();
    EXPECT_EQ(::poll(&entry, 1, 5000), 1);
    fabric.park_end();
  });
}

TEST_P(Anywhere, LeavingIsSilent) {
  run_as_threads(3, world(), [](Fabric& fabric, int rank) {
    if (rank == 2) {
      fabric.send(0, bytes("last words"), false);
      return;  // leave() follows
    }
    Recorder sink;
    if (rank == 0) {
      EXPECT_TRUE(poll_until(fabric, sink, [&] { return !sink.messages.empty(); }));
    }
    EXPECT_FALSE(sleep_until(
        fabric, sink, [&] { return !sink.losses.empty(); }, 200ms))
        << sink.losses[0].second;
    fabric.send(2, bytes("too late, and no matter"), true);
  });
}

// Every other rank is told, and has got the last words before.
TEST_P(Anywhere, DroppingWithoutLeaveIsALoss) {
  Folder folder;
  std::vector<std::thread> threads;
  std::latch opened(3);  // a rank that is lost earlier is missing
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      FolderStore store(folder.path());
      auto fabric = open_or_fail(store, options_for(world(), rank, 3));
      opened.count_down();
      ASSERT_NE(fabric, nullptr);
      if (rank == 2) {
        opened.wait();
        fabric->send(0, bytes("last words"), false);
        fabric.reset();
        return;
      }
      Recorder sink;
      EXPECT_TRUE(sleep_until(*fabric, sink, [&] { return !sink.losses.empty(); }));
      ASSERT_EQ(sink.losses.size(), 1u);
      EXPECT_EQ(sink.losses[0], std::pair(2, std::string("closed its connection")));
      if (rank == 0) {
        ASSERT_EQ(sink.messages.size(), 1u);
        EXPECT_EQ(sink.messages[0].second, "last words");
      }
      fabric->leave(now() + 1s);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Anywhere, MissingRanksAreNamed) {
  Folder folder;
  std::vector<std::thread> threads;
  for (int rank : {0, 1, 3, 4, 6, 7}) {
    threads.emplace_back([&, rank] {
      FolderStore store(folder.path());
      FabricOptions options = options_for(world(), rank, 8);
      options.deadline = now() + 3s;
      const auto opened = open_fabric(store, options);
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(opened.status().code(), Code::kTimeout);
      const std::string message = opened.status().message();
      // 3 s, or a little more where others have the cores
      EXPECT_EQ(message.find("init: waited "), 0u) << message;
      EXPECT_TRUE(message.ends_with(" s; missing ranks 2 5 of 8")) << message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A store through which one rank cannot read where its host meets.
class Misread final : public FolderStore {
 public:
  using FolderStore::FolderStore;
  Result<std::string> get(const std::string& key, Time deadline) override {
    Result<std::string> value = FolderStore::get(key, deadline);
    return value.ok() && key.ends_with("/host/1") ? Result<std::string>(std::string("nonsense"))
                                                  : value;
  }
};

// Ranks 1 and 2 share a host, and rank 2 gives up at once. Rank 0, which waits for both, tells rank
// 2's reason.
TEST(Fabric, WhoGivesUpWhileMeetingSaysWhy) {
  Folder folder;
  WorldOptions world;
  world.in_process = false;
  world.hosts = {"127.0.0.1", "127.0.0.2", "127.0.0.2"};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      FolderStore good(folder.path());
      Misread bad(folder.path());
      FabricOptions options = options_for(world, rank, 3);
      options.deadline = now() + 2s;
      const auto opened = open_fabric(rank == 2 ? bad : good, options);
      ASSERT_FALSE(opened.ok());
      const std::string message = opened.status().message();
      if (rank == 0) {
        EXPECT_TRUE(message.ends_with("; rank 2 says: meeting place in the store is malformed"))
            << message;
        EXPECT_EQ(opened.status().rank(), 2);
      } else if (rank == 1) {
        EXPECT_TRUE(message.ends_with("missing ranks 2 of 3")) << message;
      } else {
        EXPECT_EQ(message, "init: meeting place in the store is malformed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Rank 1 ends after it has told the store of itself. Whoever knows that, as the launcher of an
// elastic job does, ends the waiting of rank 0, on one host and over the network.
TEST(Fabric, WaitingEndsWhenAMemberIsSaidToBeLost) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "a"}, std::vector<std::string>{"127.0.0.1", "127.0.0.2"}}) {
    SCOPED_TRACE(hosts[1]);
    Folder folder;
    WorldOptions world;
    world.in_process = false;
    world.hosts = hosts;
    std::atomic<bool> lost = false;
    std::thread other([&] {
      FolderStore store(folder.path());
      EXPECT_TRUE(exchange_peer_info(store, options_for(world, 1, 2)).ok());
      lost = true;
    });
    FolderStore store(folder.path());
    FabricOptions options = options_for(world, 0, 2);
    options.deadline = kNever;
    options.lost =
        LostMember([&] { return lost ? Status(Code::kPeerLost, "worker 7 has ended") : Status(); });
    const auto opened = open_fabric(store, options);
    EXPECT_EQ(opened.status().code(), Code::kPeerLost);
    EXPECT_EQ(opened.status().message(), "worker 7 has ended");
    other.join();
  }
}

// Rank 1 stands still. The launcher tells ranks 0 and 2, which go on without rank 1; what rank 1
// finds when it goes on is that nobody is with it any more.
TEST(Fabric, AMemberThatIsExpelledIsLostAndLearnsOfIt) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "a", "a"},
        std::vector<std::string>{"127.0.0.1", "127.0.0.2", "127.0.0.1"},
        std::vector<std::string>{"127.0.0.1", "127.0.0.1", "127.0.0.2"}}) {
    SCOPED_TRACE(hosts[1] + hosts[2]);
    Folder folder;
    WorldOptions world;
    world.in_process = false;
    world.hosts = hosts;
    std::latch opened(3), expelled(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        FolderStore store(folder.path());
        FabricOptions options = options_for(world, rank, 3);
        const Fd news(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        options.expulsions.descriptors = {news.get()};
        options.expulsions.take = [&]() -> Result<std::map<int, std::string>> {
          uint64_t count = 0;
          const bool any = ::read(news.get(), &count, sizeof count) > 0;
          return any ? std::map<int, std::string>{{1, "stood still"}}
                     : std::map<int, std::string>{};
        };
        auto fabric = open_or_fail(store, options);
        opened.arrive_and_wait();
        if (rank == 1) expelled.arrive_and_wait();
        ring(news.get());
        Recorder found;
        EXPECT_TRUE(sleep_until(*fabric, found, [&] { return !found.losses.empty(); }, 20s));
        if (rank != 1) {
          EXPECT_EQ(found.losses, (decltype(found.losses){{1, "stood still"}}));
          expelled.arrive_and_wait();
        }
        fabric->leave(now() + 1s);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(Anywhere, TwoHundredRoundsOnOneStoreLeakNothing) {
  Folder folder;
  const auto round = [&] {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        FolderStore store(folder.path());
        auto fabric = open_or_fail(store, options_for(world(), rank, 3));
        ASSERT_NE(fabric, nullptr);
        // Between hosts somebody else would have to drive; tcp_test.cc does.
        auto lane = fabric->open_lane(0, fabric->topology().local_ranks(), 100000, now() + 10s);
        ASSERT_TRUE(lane.ok());
        fabric->close_lane(std::move(lane).value());
        fabric->leave(now() + 1s);
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  round();
  const size_t fds = hvd::testing::open_descriptors();
  const size_t threads = hvd::testing::running_threads();
  for (int i = 1; i < 200; ++i) round();
  EXPECT_EQ(hvd::testing::open_descriptors(), fds);
  EXPECT_EQ(hvd::testing::running_threads(), threads);
  const std::set<std::string> left = FolderStore(folder.path()).keys();
  EXPECT_EQ(left,
            (std::set<std::string>{"fabric.arrivals.0", "fabric.arrivals.1", "fabric.arrivals.2"}));
}

TEST(FabricOfOne, HasNoSocketAndNoWatch) {
  Folder folder;
  FolderStore store(folder.path());
  const size_t before = hvd::testing::open_descriptors();
  auto fabric = open_or_fail(store, options_for({}, 0, 1));
  ASSERT_NE(fabric, nullptr);
  EXPECT_EQ(hvd::testing::open_descriptors(), before + 2) << "a bell and an epoll descriptor";
  EXPECT_TRUE(store.keys().empty());
  fabric->leave(now());
}

}  // namespace
}  // namespace hvd::transport::testing
