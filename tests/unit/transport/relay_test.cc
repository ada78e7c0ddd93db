// SPDX-License-Identifier: Apache-2.0
// Somebody on the way between two hosts who alters what passes.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <list>
#include <mutex>

#include "transport/tcp_socket.h"
#include "unit/transport/world.h"

namespace hvd::transport::testing {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr size_t kAltered = 300'000;  // far behind what greetings and control messages are

// Passes connections on, and flips a bit of byte kAltered of each direction.
class Relay {
 public:
  explicit Relay(const SocketAddress& target) : target_(target) {
    listener_ = listen_on(*SocketAddress::parse("127.0.0.1", 0)).value();
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
    for (std::thread& pump : pumps_) pump.join();
  }
  std::string address() const {
    sockaddr_storage here{};
    socklen_t size = sizeof here;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size);
    return SocketAddress::of(reinterpret_cast<sockaddr*>(&here), size).text();
  }

 private:
  void run() {
    while (!stop_) {
      pollfd watched{listener_.get(), POLLIN, 0};
      if (::poll(&watched, 1, 10) <= 0) continue;
      const int near = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (near < 0) continue;
      Fd far = connect_to(target_).value();
      pollfd connecting{far.get(), POLLOUT, 0};
      ::poll(&connecting, 1, 5000);
      pumps_.emplace_back([this, near, far = std::move(far)] { pass(Fd(near), far.get()); });
    }
  }

  void pass(Fd near, int far) {
    size_t passed[2] = {0, 0};
    std::vector<std::byte> bytes(64 << 10);
    const int ends[2] = {near.get(), far};
    while (!stop_) {
      pollfd watched[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
      ::poll(watched, 2, 10);
      for (size_t i = 0; i < 2; ++i) {
        if (watched[i].revents == 0) continue;
        const ssize_t got = ::recv(ends[i], bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
          ::shutdown(ends[0], SHUT_RDWR);
          ::shutdown(ends[1], SHUT_RDWR);
          return;
        }
        if (got > 0)
          forward(std::span(bytes).first(static_cast<size_t>(got)), passed[i], ends[1 - i]);
      }
    }
  }

  void forward(std::span<std::byte> bytes, size_t& passed, int to) {
    if (kAltered >= passed && kAltered < passed + bytes.size())
      bytes[kAltered - passed] ^= std::byte{4};
    passed += bytes.size();
    while (!bytes.empty() && !stop_) {
      const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return;
      if (sent < 0) {
        pollfd room{to, POLLOUT, 0};
        ::poll(&room, 1, 10);
      } else {
        bytes = bytes.subspan(static_cast<size_t>(sent));
      }
    }
  }

  const SocketAddress target_;
  Fd listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::list<std::thread> pumps_;
};

// Shows the relay where a rank's address is asked for.
class BentStore final : public FolderStore {
 public:
  using FolderStore::FolderStore;
  Result<std::string> get(const std::string& key, Time deadline) override {
    Result<std::string> value = FolderStore::get(key, deadline);
    if (!value.ok() || key.find("/tcp/") == std::string::npos) return value;
    relay_ = std::make_unique<Relay>(
        *SocketAddress::parse(value.value().substr(0, value.value().find(' '))));
    return relay_->address();
  }

 private:
  std::unique_ptr<Relay> relay_;
};

struct Passage {
  bool complete = false;  // every byte has arrived
  size_t wrong = 0;       // bytes that are not what was sent
  std::string cause;      // of the loss of the other rank
};

// Both ranks send kBytes to each other; what each of them sees.
std::array<Passage, 2> exchange(bool data_mac, secure::Level level) {
  Folder folder;
  std::array<Passage, 2> outcomes;
  std::atomic<int> finished{0};
  const auto body = [&](int rank) {
    BentStore store(folder.path());
    FabricOptions options =
        options_for({.in_process = true, .hosts = {"127.0.0.1", "127.0.0.2"}}, rank, 2);
    options.data_mac = data_mac;
    options.security = level;
    const std::unique_ptr<Fabric> fabric = open_or_fail(store, options);
    ASSERT_NE(fabric, nullptr);
    auto opened = open_driven(*fabric, 0, {0, 1});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const std::unique_ptr<Lane> lane = std::move(opened).value();
    Stream& stream = *lane->streams[static_cast<size_t>(1 - rank)];
    std::vector<char> out(kBytes, 'a'), in(kBytes);
    size_t sent = 0, got = 0;
    Recorder sink;
    const auto step = [&] {
      const iovec send{out.data() + sent, kBytes - sent}, receive{in.data() + got, kBytes - got};
      sent += stream.send_some(std::span(&send, 1));
      got += stream.receive_some(std::span(&receive, 1));
      return (sent == kBytes && got == kBytes) || !sink.losses.empty();
    };
    EXPECT_TRUE(sleep_until(*fabric, sink, step));
    Passage& outcome = outcomes[static_cast<size_t>(rank)];
    outcome.complete = got == kBytes;
    outcome.wrong = got - static_cast<size_t>(std::count(
                              in.begin(), in.begin() + static_cast<ptrdiff_t>(got), 'a'));
    if (!sink.losses.empty()) outcome.cause = sink.losses.front().second;
    // Whoever has everything stays until the other has: leaving is a loss, too.
    ++finished;
    for (const Time end = now() + 10s; outcome.complete && finished < 2 && now() < end;)
      std::this_thread::sleep_for(1ms);
  };
  std::thread other(body, 0);
  body(1);
  other.join();
  return outcomes;
}

TEST(Relay, AltersWhatIsNotProtected) {
  for (const Passage& outcome : exchange(false, secure::Level::kAuth)) {
    EXPECT_TRUE(outcome.complete);
    EXPECT_EQ(1u, outcome.wrong);
  }
}

TEST(Relay, IsFoundOutByChecksums) {
  const std::array<Passage, 2> outcomes = exchange(true, secure::Level::kAuth);
  for (const Passage& outcome : outcomes) {
    EXPECT_FALSE(outcome.complete);
    EXPECT_EQ(0u, outcome.wrong);
    EXPECT_NE("", outcome.cause);
  }
  // The one who finds out first says why; the other may only see it go.
  EXPECT_NE(std::string::npos, (outcomes[0].cause + outcomes[1].cause).find("altered on the way"));
}

TEST(Relay, IsFoundOutByEncryption) {
  for (const Passage& outcome : exchange(false, secure::Level::kEncrypt)) {
    EXPECT_FALSE(outcome.complete);
    EXPECT_EQ(0u, outcome.wrong);
    EXPECT_NE("", outcome.cause);
  }
}

}  // namespace
}  // namespace hvd::transport::testing
