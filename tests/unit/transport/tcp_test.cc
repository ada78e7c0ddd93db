// SPDX-License-Identifier: Apache-2.0
// Ranks on different "hosts" of one machine: lanes over TCP, and deaths without a pidfd.
#include <sys/socket.h>

#include <barrier>
#include <csignal>

#include "transport/tcp_socket.h"
#include "unit/time_scale.h"
#include "unit/transport/world.h"

namespace hvd::transport::testing {
namespace {

const std::vector<std::string> kTwoPairs = {"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"};
const std::vector<std::string> kTwo = {"127.0.0.1", "127.0.0.2"};

WorldOptions apart(std::vector<std::string> hosts) {
  return {.in_process = true, .hosts = std::move(hosts), .leave = true};
}

class TcpLane : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Tcp, TcpLane, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "sealed" : "plain"; });

TEST_P(TcpLane, HasMemoryWithNeighboursAndStreamsToOthers) {
  WorldOptions world = apart(kTwoPairs);
  world.data_mac = GetParam();
  run_as_threads(4, world, [](Fabric& fabric, int rank) {
    EXPECT_EQ(fabric.topology().local_size(), 2);
    EXPECT_EQ(fabric.topology().cross_size(), 2);
    for (int round = 0; round < 3; ++round) {
      auto opened = open_driven(fabric, 2, {0, 1, 2, 3});
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      std::unique_ptr<Lane> lane = std::move(opened).value();
      EXPECT_EQ(lane->hosts, 2);
      EXPECT_EQ(lane->host_of, (std::vector<int>{0, 0, 1, 1}));
      EXPECT_EQ(lane->local, (rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3}));
      EXPECT_EQ(lane->me_local, rank % 2);
      EXPECT_EQ(lane->memory.size(), 8192u);
      for (int member = 0; member < 4; ++member) {
        EXPECT_EQ(lane->streams[static_cast<size_t>(member)] != nullptr, member / 2 != rank / 2);
      }
      // Much more than the sockets hold goes both ways at once on both streams.
      constexpr size_t kBytes = 8 << 20;
      std::vector<char> out(kBytes);
      for (size_t i = 0; i < kBytes; ++i)
        out[i] = static_cast<char>(i * 13 + static_cast<size_t>(rank) + (i >> 12));
      std::vector<std::vector<char>> in(4, std::vector<char>(kBytes));
      std::vector<size_t> sent(4), got(4);
      const int first = rank < 2 ? 2 : 0;
      Recorder sink;
      const auto step = [&] {
        bool done = true;
        for (int peer : {first, first + 1}) {
          const auto at = static_cast<size_t>(peer);
          Stream& stream = *lane->streams[at];
          const size_t half = (kBytes - sent[at]) / 2;
          const iovec send[2] = {{out.data() + sent[at], half},
                                 {out.data() + sent[at] + half, kBytes - sent[at] - half}};
          if (sent[at] < kBytes) sent[at] += stream.send_some(send);
          const iovec receive[1] = {{in[at].data() + got[at], kBytes - got[at]}};
          got[at] += stream.receive_some(receive);
          EXPECT_FALSE(stream.failed());
          done = done && sent[at] == kBytes && got[at] == kBytes;
        }
        return done;
      };
      // Asleep in between: each wake-up is an edge of a stream.
      ASSERT_TRUE(sleep_until(fabric, sink, step));
      for (int peer : {first, first + 1}) {
        size_t wrong = 0;
        for (size_t i = 0; i < kBytes; ++i) {
          wrong += in[static_cast<size_t>(peer)][i] !=
                   static_cast<char>(i * 13 + static_cast<size_t>(peer) + (i >> 12));
        }
        EXPECT_EQ(wrong, 0u) << "from rank " << peer;
      }
      fabric.close_lane(std::move(lane));
    }
  });
}

TEST(Tcp, UnreadStreamDoesNotKeepTheRankAwake) {
  std::barrier both_have_opened(2);  // the thread that drives meanwhile would take the messages
  run_as_threads(2, apart(kTwo), [&both_have_opened](Fabric& fabric, int rank) {
    auto opened = open_driven(fabric, 0, {0, 1});
    both_have_opened.arrive_and_wait();
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    std::unique_ptr<Lane> lane = std::move(opened).value();
    Recorder sink;
    if (rank == 0) {
      char byte = 'x';
      const iovec piece[1] = {{&byte, 1}};
      EXPECT_EQ(lane->streams[1]->send_some(piece), 1u);
      fabric.send(1, bytes("sent"), true);
      EXPECT_TRUE(sleep_until(fabric, sink, [&] { return !sink.messages.empty(); }));
      fabric.close_lane(std::move(lane));
      return;
    }
    EXPECT_TRUE(sleep_until(fabric, sink, [&] { return !sink.messages.empty(); }));
    int wakes = 0;
    sleep_until(
        fabric, sink,
        [&] {
          ++wakes;
          return false;
        },
        300ms);
    EXPECT_LT(wakes, 20);
    char byte = 0;
    const iovec piece[1] = {{&byte, 1}};
    size_t got = 0;
    for (const Time end = now() + 10s; got == 0 && now() < end;)
      got = lane->streams[0]->receive_some(piece);
    EXPECT_EQ(got, 1u);
    EXPECT_EQ(byte, 'x');
    fabric.send(0, bytes("done"), true);
    fabric.close_lane(std::move(lane));
  });
}

TEST(Tcp, OpeningALaneAloneEndsAtTheDeadline) {
  run_as_threads(2, apart(kTwo), [](Fabric& fabric, int rank) {
    Recorder sink;
    if (rank == 0) {
      const auto opened = open_driven(fabric, 4, {0, 1}, 200ms);
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(opened.status().code(), Code::kTimeout);
      EXPECT_EQ(opened.status().message(), "lane 4: rank 1 (host 127.0.0.2, pid " +
                                               std::to_string(::getpid()) +
                                               "): did not connect in time");
      EXPECT_EQ(opened.status().rank(), 1);
      fabric.send(1, bytes("done"), true);
      return;
    }
    EXPECT_TRUE(sleep_until(fabric, sink, [&] { return !sink.messages.empty(); }));
  });
}

TEST(Tcp, LosingAMemberEndsTheOpeningOfALane) {
  Folder folder;
  const pid_t child = spawn([&] {
    FolderStore store(folder.path());
    auto fabric =
        open_or_fail(store, options_for({.in_process = false, .hosts = kTwo, .leave = true}, 1, 2));
    std::this_thread::sleep_for(100ms);
    return ::kill(::getpid(), SIGKILL);
  });
  FolderStore store(folder.path());
  auto fabric =
      open_or_fail(store, options_for({.in_process = false, .hosts = kTwo, .leave = true}, 0, 2));
  ASSERT_NE(fabric, nullptr);
  const Time start = now();
  const auto opened = open_driven(*fabric, 0, {0, 1});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kPeerLost);
  EXPECT_LT(now() - start, hvd::testing::scaled(8s));  // the deadline is after ten
  fabric->leave(now() + 1s);
  wait_status(child);
}

// What is told until a loss is, or the limit after the last words.
std::vector<std::pair<int, std::string>> losses_after(
    const std::function<int(std::unique_ptr<Fabric>)>& doom, Duration limit = 10s) {
  Folder folder;
  const pid_t child = spawn([&] {
    FolderStore store(folder.path());
    auto fabric =
        open_or_fail(store, options_for({.in_process = false, .hosts = kTwo, .leave = true}, 1, 2));
    fabric->send(0, bytes("last words"), false);
    return doom(std::move(fabric));
  });
  FolderStore store(folder.path());
  auto fabric =
      open_or_fail(store, options_for({.in_process = false, .hosts = kTwo, .leave = true}, 0, 2));
  Recorder sink;
  sleep_until(*fabric, sink, [&] { return !sink.messages.empty(); });
  sleep_until(*fabric, sink, [&] { return !sink.losses.empty(); }, limit);
  EXPECT_EQ(sink.messages.size(), 1u);
  fabric->leave(now() + 1s);
  wait_status(child);
  return sink.losses;
}

TEST(Tcp, EndsOfARemoteRank) {
  const std::vector<std::pair<int, std::string>> closed = {{1, "closed its connection"}};
  EXPECT_EQ(losses_after([](std::unique_ptr<Fabric>) { return ::kill(::getpid(), SIGKILL); }),
            closed);
  EXPECT_EQ(losses_after([](std::unique_ptr<Fabric> fabric) {
              fabric.reset();
              std::this_thread::sleep_for(200ms);
              return 0;
            }),
            closed);
  // Dropped while a forked child still holds the sockets: it lives until the other end of its pipe
  // is closed here.
  int hold[2];
  ASSERT_EQ(::pipe2(hold, O_CLOEXEC), 0);
  EXPECT_EQ(losses_after([&hold](std::unique_ptr<Fabric> fabric) {
              if (::fork() == 0) {
                ::close(hold[1]);
                char byte = 0;
                ::_exit(static_cast<int>(::read(hold[0], &byte, 1)));
              }
              fabric.reset();
              return 0;
            }),
            closed);
  for (const int end : hold) ::close(end);
  EXPECT_EQ(losses_after(
                [](std::unique_ptr<Fabric> fabric) {
                  fabric->leave(now() + 1s);
                  return 0;
                },
                300ms),
            (std::vector<std::pair<int, std::string>>{}));
}

// Goodbye comes behind megabytes that nobody has read yet, from a rank that itself leaves input
// unread.
TEST(Tcp, LeavingDeliversWhatWasSentBefore) {
  run_as_threads(2, apart(kTwo), [](Fabric& fabric, int rank) {
    Recorder sink;
    fabric.send(1 - rank, bytes("unread by rank 1"), true);
    if (rank == 1) {
      for (int i = 0; i < 10; ++i) fabric.send(0, bytes(std::string(2 << 20, 'z')), false);
      fabric.leave(now() + 10s);
      return;
    }
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(sleep_until(fabric, sink, [&] { return sink.messages.size() == 11; }));
    EXPECT_FALSE(sleep_until(fabric, sink, [&] { return !sink.losses.empty(); }, 200ms));
  });
}

TEST(Tcp, SixthVersionLoopbackWorks) {
  if (!listen_on(*SocketAddress::parse("::1", 0)).ok())
    GTEST_SKIP() << "this machine has no IPv6 loopback";
  run_as_threads(2, apart({"::1", "127.0.0.1"}), [](Fabric& fabric, int rank) {
    Recorder sink;
    fabric.send(1 - rank, bytes("hello"), true);
    EXPECT_TRUE(sleep_until(fabric, sink, [&] { return !sink.messages.empty(); }));
  });
}

}  // namespace
}  // namespace hvd::transport::testing
