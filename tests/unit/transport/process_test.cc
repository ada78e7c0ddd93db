// SPDX-License-Identifier: Apache-2.0
// Ranks as processes: how their ends are noticed and named, and that strangers at the socket do no
// harm.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <csignal>
#include <random>

#include "unit/time_scale.h"
#include "unit/transport/world.h"

namespace hvd::transport::testing {
namespace {

std::unique_ptr<Fabric> open_rank(const Folder& folder, int rank, int size,
                                  std::vector<std::string> hosts = {}) {
  FolderStore store(folder.path());
  return open_or_fail(
      store,
      options_for({.in_process = false, .hosts = std::move(hosts), .leave = true}, rank, size));
}

// What a doomed rank does once it is told to: never returns, or returns its exit code.
using Doom = std::function<int(std::unique_ptr<Fabric>)>;

struct Outcome {
  std::vector<std::pair<int, std::string>> losses;
  Duration after{};
};

// Rank 1 of 3 (rank 0 is this process) meets its end; returns what rank 0 saw. Rank 2 must see the
// same text and answers by message with it.
Outcome watch_end_of_rank_1(const Doom& doom, bool sleeping) {
  Folder folder;
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& died = *new (page) std::atomic<Time::rep>(0);  // the clock is the same in all processes
  const pid_t doomed = spawn([&] {
    auto fabric = open_rank(folder, 1, 3);
    if (fabric == nullptr) return 99;
    Recorder sink;
    if (!sleep_until(*fabric, sink, [&] { return !sink.messages.empty(); })) return 98;
    died = now().time_since_epoch().count();
    return doom(std::move(fabric));
  });
  const pid_t witness = spawn([&] {
    auto fabric = open_rank(folder, 2, 3);
    if (fabric == nullptr) return 99;
    Recorder sink;
    sleep_until(*fabric, sink, [&] { return !sink.losses.empty(); }, 5s);
    const std::string seen = sink.losses.size() == 1 ? sink.losses[0].second : "no loss";
    fabric->send(0, bytes(seen), true);
    if (!sleep_until(*fabric, sink, [&] { return !sink.messages.empty(); })) return 97;
    fabric->leave(now() + 1s);
    return 0;
  });
  auto fabric = open_rank(folder, 0, 3);
  Outcome outcome;
  if (fabric == nullptr) return outcome;  // reported by open_rank
  Recorder sink;
  fabric->send(1, bytes("die"), true);
  const auto lost = [&] { return !sink.losses.empty(); };
  if (sleeping) {
    EXPECT_TRUE(sleep_until(*fabric, sink, lost, 5s));
  } else {
    EXPECT_TRUE(poll_until(*fabric, sink, lost, 5s));
  }
  outcome.after = now() - Time(Duration(died));
  ::munmap(page, 4096);
  EXPECT_TRUE(sleep_until(*fabric, sink, [&] { return !sink.messages.empty(); }));
  outcome.losses = sink.losses;
  EXPECT_EQ(sink.losses.size(), 1u);
  if (!sink.losses.empty()) {
    EXPECT_EQ(sink.losses[0].first, 1);
    EXPECT_EQ(sink.messages.at(0).second, sink.losses[0].second) << "rank 2 tells it differently";
  }
  fabric->send(2, bytes("bye"), true);
  fabric->leave(now() + 1s);
  EXPECT_EQ(exit_code(witness), 0);
  ::kill(doomed, SIGKILL);  // some live on
  wait_status(doomed);
  return outcome;
}

// The news comes from the kernel, long before the 10 s in which a silent rank is missed. How soon
// is benchmarks' business.
void expect_end_of(bool sleeping, const Doom& doom, const std::string& cause) {
  const Outcome outcome = watch_end_of_rank_1(doom, sleeping);
  ASSERT_EQ(outcome.losses.size(), 1u);
  EXPECT_EQ(outcome.losses[0].second, cause);
  EXPECT_LT(outcome.after, hvd::testing::scaled(2s)) << (sleeping ? "sleeping" : "polling");
}

void expect_end(const Doom& doom, const std::string& cause) {
  for (const bool sleeping : {true, false}) expect_end_of(sleeping, doom, cause);
}

int no_core_dump() {
  const rlimit none{0, 0};
  return ::setrlimit(RLIMIT_CORE, &none);
}

TEST(ProcessEnd, KilledBySignal9) {
  expect_end([](std::unique_ptr<Fabric>) { return ::kill(::getpid(), SIGKILL); },
             "was killed by signal 9 (SIGKILL)");
}

TEST(ProcessEnd, Aborted) {
  expect_end(
      [](std::unique_ptr<Fabric> fabric) {
        no_core_dump();
        (void)fabric.release();
        std::signal(SIGABRT, SIG_DFL);
        ::abort();
        return 0;
      },
      "was killed by signal 6 (SIGABRT)");
}

TEST(ProcessEnd, ExitedWithCode3) {
  expect_end(
      [](std::unique_ptr<Fabric> fabric) {
        (void)fabric.release();  // an exit that destroys nothing
        return 3;
      },
      "exited with code 3 without shutting down");
}

TEST(ProcessEnd, DestroyedWithoutLeaving) {
  expect_end(
      [](std::unique_ptr<Fabric> fabric) {
        fabric.reset();
        std::this_thread::sleep_for(60s);  // ends when all is over
        return 0;
      },
      "closed its connection");
}

// A child of the dead rank keeps all its sockets open.
TEST(ProcessEnd, KilledWithLiveChild) {
  expect_end(
      [](std::unique_ptr<Fabric>) {
        if (::fork() == 0) {
          std::this_thread::sleep_for(3s);
          ::_exit(0);
        }
        return ::kill(::getpid(), SIGKILL);
      },
      "was killed by signal 9 (SIGKILL)");
}

// The process goes on as another program: only the closed sockets tell, and only rank 0 has one to
// it.
TEST(ProcessEnd, ReplacedByExec) {
  const Doom doom = [](std::unique_ptr<Fabric>) {
    return ::execl("/bin/sleep", "sleep", "60", nullptr);
  };
  expect_end_of(true, doom, "closed its connection");
}

TEST(ProcessEnd, ReapedAtOnceIsStillExplained) {
  Folder folder;
  const pid_t child = spawn([&] {
    auto fabric = open_rank(folder, 1, 2);
    (void)fabric.release();
    return 7;
  });
  auto fabric = open_rank(folder, 0, 2);
  ASSERT_NE(fabric, nullptr);
  EXPECT_EQ(exit_code(child), 7);  // no zombie left to read from
  Recorder sink;
  ASSERT_TRUE(poll_until(*fabric, sink, [&] { return !sink.losses.empty(); }));
  // Linux before 6.15 keeps no record of a process that has been waited for.
  EXPECT_TRUE(sink.losses[0].second == "exited with code 7 without shutting down" ||
              sink.losses[0].second == "ended (cause not known)")
      << sink.losses[0].second;
  fabric->leave(now() + 1s);
}

TEST(ProcessEnd, LeavingIsSilentEvenWhenKilledAfterwards) {
  Folder folder;
  const pid_t child = spawn([&] {
    auto fabric = open_rank(folder, 1, 2);
    fabric->send(0, bytes("last words"), false);
    fabric->leave(now() + 1s);
    return ::kill(::getpid(), SIGKILL);
  });
  auto fabric = open_rank(folder, 0, 2);
  ASSERT_NE(fabric, nullptr);
  wait_status(child);
  Recorder sink;
  EXPECT_FALSE(sleep_until(*fabric, sink, [&] { return !sink.losses.empty(); }, 400ms));
  EXPECT_EQ(sink.messages.size(), 1u);
  fabric->leave(now() + 1s);
}

TEST(Process, ForkedChildMayDropItsCopy) {
  Folder folder;
  const pid_t peer = spawn([&] {
    auto fabric = open_rank(folder, 1, 2);
    Recorder sink;
    sleep_until(*fabric, sink, [&] { return !sink.losses.empty(); }, 500ms);
    fabric->leave(now() + 1s);
    return static_cast<int>(sink.losses.size());
  });
  auto fabric = open_rank(folder, 0, 2);
  ASSERT_NE(fabric, nullptr);
  const pid_t child = spawn([&] {
    fabric->leave(now() + 1s);
    fabric.reset();
    return 0;
  });
  EXPECT_EQ(exit_code(child), 0);
  Recorder sink;
  EXPECT_FALSE(sleep_until(*fabric, sink, [&] { return !sink.losses.empty(); }, 200ms));
  EXPECT_EQ(exit_code(peer), 0) << "told of a loss that was none";
  fabric->leave(now() + 1s);
}

bool mapped(const std::string& file) {
  std::ifstream maps("/proc/self/maps");
  return std::string(std::istreambuf_iterator<char>(maps), {}).find(file) != std::string::npos;
}

TEST(Process, MemoryIsSharedAndHasNoName) {
  Folder folder;
  const auto body = [&](int rank) {
    auto fabric = open_rank(folder, rank, 4);
    if (fabric == nullptr) return 99;
    auto lane = fabric->open_lane(3, {0, 1, 2, 3}, 4096, now() + 10s);
    if (!lane.ok()) return 98;
    auto* words = reinterpret_cast<std::atomic<int>*>(lane.value()->memory.data());
    words[rank * 1024].store(rank + 1);
    for (int other = 0; other < 4; ++other) {
      const Time end = now() + 10s;
      while (words[other * 1024].load() != other + 1) {
        if (now() > end) return 97;
        std::this_thread::yield();
      }
    }
    if (!mapped("/memfd:hvd (deleted)") || mapped("/dev/shm/")) return 96;
    fabric->close_lane(std::move(lane).value());
    fabric->leave(now() + 1s);
    return 0;
  };
  std::vector<pid_t> children;
  for (int rank = 1; rank < 4; ++rank) children.push_back(spawn([&, rank] { return body(rank); }));
  EXPECT_EQ(body(0), 0);
  for (pid_t child : children) EXPECT_EQ(exit_code(child), 0);
}

int connect_to_abstract(const std::string& name) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return fd;
  ::close(fd);
  return -1;
}

constexpr const char* kRendezvousPlace = "fabric/1/host/0";

// Gives its rank the place of the rendezvous when it is let in.
class SlowStore final : public rendezvous::Store {
 public:
  SlowStore(const std::string& folder, const std::atomic<bool>& open)
      : store_(folder), open_(open) {}
  Status set(const std::string& key, const std::string& value) override {
    return store_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    while (key == kRendezvousPlace && !open_) std::this_thread::sleep_for(1ms);
    return store_.get(key, deadline);
  }
  Result<int64_t> add(const std::string& key, int64_t delta) override {
    return store_.add(key, delta);
  }
  Status remove(const std::string& key) override { return store_.remove(key); }

 private:
  FolderStore store_;
  const std::atomic<bool>& open_;
};

// Rank 1 comes late; until then strangers knock with nonsense, with nothing, and with the right
// shape but a wrong token.
TEST(Process, StrangersAtTheSocketAreSentAway) {
  Folder folder;
  const pid_t leader = spawn([&] {
    auto fabric = open_rank(folder, 0, 2);
    if (fabric == nullptr) return 99;
    Recorder sink;
    const bool got = sleep_until(*fabric, sink, [&] { return !sink.messages.empty(); });
    fabric->leave(now() + 1s);
    return got && sink.losses.empty() ? 0 : 1;
  });
  std::atomic<bool> knocked{false};
  std::thread late([&] {
    SlowStore store(folder.path(), knocked);
    auto fabric =
        open_or_fail(store, options_for({.in_process = false, .hosts = {}, .leave = true}, 1, 2));
    ASSERT_NE(fabric, nullptr);
    fabric->send(0, bytes("hello"), true);
    fabric->leave(now() + 1s);
  });
  std::mt19937 random(5);
  const Result<std::string> place = FolderStore(folder.path()).get(kRendezvousPlace, now() + 10s);
  EXPECT_TRUE(place.ok()) << place.status().message();
  const std::string name = place.ok() ? place.value().substr(0, place.value().find(' ')) : "";
  std::vector<int> idle;
  int refused = 0;
  for (int knock = 0; knock < 300; ++knock) {
    const int fd = connect_to_abstract(name);
    if (fd < 0) break;
    std::string nonsense(random() % 3 == 0 ? 48 : random() % 200, static_cast<char>(random()));
    if (knock % 4 == 1) nonsense.replace(0, 8, "olleh-dvh", 8);
    if (knock % 4 != 3) ::send(fd, nonsense.data(), nonsense.size(), MSG_NOSIGNAL);
    ++refused;
    idle.push_back(fd);
    if (idle.size() > 100) {
      ::close(idle.front());
      idle.erase(idle.begin());
    }
  }
  knocked = true;
  late.join();
  for (int fd : idle) ::close(fd);
  EXPECT_EQ(refused, 300);
  EXPECT_EQ(exit_code(leader), 0);
}

}  // namespace
}  // namespace hvd::transport::testing
