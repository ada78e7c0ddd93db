// SPDX-License-Identifier: Apache-2.0
// Strangers at the port of a rank: wrong ones, silent ones, and many.
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "transport/greeting.h"
#include "transport/tcp_socket.h"
#include "unit/time_scale.h"
#include "unit/transport/world.h"

namespace hvd::transport::testing {
namespace {

using secure::Keyring;
using secure::Secret;

const WorldOptions kApart = {
    .in_process = true, .hosts = {"127.0.0.1", "127.0.0.2"}, .leave = true};

// Remembers what one rank publishes, so that a test can call its listener.
class EavesdroppingStore final : public rendezvous::Store {
 public:
  explicit EavesdroppingStore(const std::string& folder) : store_(folder) {}
  Status set(const std::string& key, const std::string& value) override {
    if (key.find("/tcp/") != std::string::npos) address.set_value(value);
    if (key.find("/secret") != std::string::npos) secret = value;
    return store_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    return store_.get(key, deadline);
  }
  Result<int64_t> add(const std::string& key, int64_t delta) override {
    return store_.add(key, delta);
  }
  Status remove(const std::string& key) override { return store_.remove(key); }

  std::promise<std::string> address;
  std::string secret;

 private:
  FolderStore store_;
};

int knock(const SocketAddress& address, const void* data, size_t size) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, address.get(), address.size) != 0) {
    ::close(fd);
    return -1;
  }
  ::send(fd, data, size, MSG_NOSIGNAL);
  return fd;
}

SocketAddress first_address(const std::string& published) {
  return *SocketAddress::parse(published.substr(0, published.find(' ')));
}

// True if the other side closes within `limit`.
bool is_closed(int fd, Duration limit) {
  timeval wait{static_cast<time_t>(limit / 1s), static_cast<suseconds_t>(limit % 1s / 1us)};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  char byte = 0;
  const ssize_t got = ::recv(fd, &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

// The first message of a call.
std::string client_hello(const Credentials& credentials, const Call& call) {
  int pair[2];
  EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
  const Fd other(pair[1]);
  auto greeting = std::move(Greeting::call(Fd(pair[0]), credentials, call)).value();
  EXPECT_EQ(Code::kPending, greeting->step().code());
  std::string bytes(4096, '\0');
  bytes.resize(static_cast<size_t>(::recv(other.get(), bytes.data(), bytes.size(), 0)));
  return bytes;
}

// How a call that claims and knows this much ends.
Code greet(const SocketAddress& address, const Credentials& credentials, const Call& call) {
  auto greeting =
      std::move(Greeting::call(std::move(connect_to(address)).value(), credentials, call)).value();
  Status status = Status::pending();
  for (const Time end = now() + 5s; status.code() == Code::kPending && now() < end;) {
    status = greeting->step();
    std::this_thread::sleep_for(1ms);
  }
  if (!status.ok()) return status.code();
  // Proved, but not expected: closed at the latest when the choice is told.
  if (Status chosen = greeting->choose(); !chosen.ok()) return chosen.code();
  return is_closed(greeting->fd(), 2s) ? Code::kPeerLost : Code::kOk;
}

// Rank 0's port is known and knocked at, before rank 1 has connected and while the two exchange
// messages.
TEST(Strangers, AtThePortAreSentAway) {
  Folder folder;
  EavesdroppingStore store(folder.path());
  std::future<std::string> published = store.address.get_future();
  std::atomic<bool> stop{false};
  std::thread first([&] {
    auto fabric = open_or_fail(store, options_for(kApart, 0, 2));
    ASSERT_NE(fabric, nullptr);
    Recorder sink;
    EXPECT_TRUE(sleep_until(*fabric, sink, [&] { return sink.messages.size() == 201; }, 30s));
    EXPECT_TRUE(sink.losses.empty());
    fabric->leave(now() + 1s);
  });
  std::thread second([&] {
    FolderStore plain(folder.path());
    auto fabric = open_or_fail(plain, options_for(kApart, 1, 2));
    ASSERT_NE(fabric, nullptr);
    for (int i = 0; i < 200; ++i) {
      fabric->send(0, bytes("step"), true);
      std::this_thread::sleep_for(2ms);
    }
    while (!stop) std::this_thread::sleep_for(1ms);
    fabric->send(0, bytes("end"), true);
    fabric->leave(now() + 1s);
  });
  const SocketAddress port = first_address(published.get());
  const auto keyring_of = [](const std::string& text) {
    return Keyring::make(std::move(Secret::parse(text)).value()).value();
  };
  Credentials right;
  right.keyring = keyring_of(store.secret);
  right.epoch = 1;
  const Call call{1, 0, kControlLane, 0};

  // Another secret, epoch, job; own or unknown rank; another rank's port.
  std::vector<std::pair<Credentials, Call>> wrong(6, {right, call});
  wrong[0].first.keyring = keyring_of(std::string(64, '7'));
  wrong[1].first.epoch = 2;
  wrong[2].first.job = "other";
  wrong[3].second.from = 0;
  wrong[4].second.from = 2;
  wrong[5].second.to = 1;
  for (const auto& [credentials, claim] : wrong)
    EXPECT_LT(greet(port, credentials, claim), Code::kOk);
  std::string hello = client_hello(right, call);
  // Every truncation of a right first message, random bytes, a web request, silence.
  std::mt19937 random(7);
  std::vector<int> held;
  for (int round = 0; round < 1000; ++round) {
    std::string data = hello.substr(0, static_cast<size_t>(round) % hello.size());
    if (round % 3 == 1) data = std::string(random() % 3000, static_cast<char>(random()));
    if (round % 3 == 2) data = round % 2 == 0 ? "GET / HTTP/1.1\r\nHost: a\r\n\r\n" : "";
    held.push_back(knock(port, data.data(), data.size()));
    if (held.size() < 150) continue;
    ::close(held.front());
    held.erase(held.begin());
  }
  stop = true;
  first.join();
  second.join();
  for (int fd : held) ::close(fd);
}

// Rank 1 of 2: joins the job in the folder and leaves it after the first message, at the latest
// after 20 s.
void wait_for_a_word(const Folder& folder) {
  FolderStore plain(folder.path());
  auto fabric = open_or_fail(plain, options_for(kApart, 1, 2));
  ASSERT_NE(fabric, nullptr);
  Recorder sink;
  sleep_until(*fabric, sink, [&] { return !sink.messages.empty(); }, 20s);
  fabric->leave(now() + 1s);
}

TEST(Strangers, SilentOneIsSentAwayAfterFiveSeconds) {
  Folder folder;
  EavesdroppingStore store(folder.path());
  std::future<std::string> published = store.address.get_future();
  std::thread second(wait_for_a_word, std::cref(folder));
  auto fabric = open_or_fail(store, options_for(kApart, 0, 2));
  ASSERT_NE(fabric, nullptr);
  const Time start = now();
  const int fd = knock(first_address(published.get()), "\x16", 1);
  {
    Driver driver(*fabric);  // asleep all the time
    EXPECT_TRUE(is_closed(fd, 9s));
  }
  EXPECT_GE(now() - start, 4500ms);
  EXPECT_LT(now() - start, hvd::testing::scaled(8s));
  ::close(fd);
  fabric->send(1, bytes("bye"), true);
  fabric->leave(now() + 1s);
  second.join();
}

// A connection from another address of the loopback network.
int knock_from(const std::string& source, const SocketAddress& port) {
  const SocketAddress from = *SocketAddress::parse(source, 0);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::bind(fd, from.get(), from.size), 0) << source;
  EXPECT_EQ(::connect(fd, port.get(), port.size), 0) << source;
  return fd;
}

// So many descriptors are not what every system allows at first.
void allow_descriptors(rlim_t wanted) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// More than there is room for, from several addresses: those that wait in the system's queue must
// not keep the rank awake.
TEST(Strangers, ManySilentOnesDoNotKeepTheRankAwake) {
  allow_descriptors(2048);
  Folder folder;
  EavesdroppingStore store(folder.path());
  std::future<std::string> published = store.address.get_future();
  std::thread second(wait_for_a_word, std::cref(folder));
  auto fabric = open_or_fail(store, options_for(kApart, 0, 2));
  ASSERT_NE(fabric, nullptr);
  const SocketAddress port = first_address(published.get());
  std::vector<int> held;
  for (int i = 0; i < 900; ++i)
    held.push_back(knock_from("127.0.0." + std::to_string(10 + i % 8), port));
  Recorder sink;
  int looks = 0;
  sleep_until(
      *fabric, sink,
      [&] {
        ++looks;
        return false;
      },
      500ms);
  EXPECT_LT(looks, 400);
  for (int fd : held) ::close(fd);
  fabric->send(1, bytes("bye"), true);
  fabric->leave(now() + 1s);
  second.join();
}

}  // namespace
}  // namespace hvd::transport::testing
