// SPDX-License-Identifier: Apache-2.0
// Two ends of a link over pairs of sockets: large payloads travel on connections of their own and
// are one with their messages.
#include "transport/tcp_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

namespace hvd::transport {
namespace {

constexpr int kPeer = 3;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct End {
  End() : events(Events::open().value()) {}

  void take(Fd control) {
    link = TcpLink::start(events, plain_wire(std::move(control)), kPeer).value();
  }
  void take_payloads(bool sending, Fd fd) {
    ASSERT_TRUE(link->carry_payloads(sending, plain_wire(std::move(fd))).ok());
  }

  // One look, as a mesh does it; how many events there were. A mesh drops a link that has ended.
  size_t look() {
    if (link->ending() != TcpLink::Ending::kNone) return 0;
    const std::span<const Event> ready = events.take();
    for (const Event& event : ready) {
      EXPECT_EQ(event.index, static_cast<uint32_t>(kPeer));
      if ((event.events & EPOLLOUT) != 0) link->flush();
    }
    const auto take = [this](std::span<const std::byte> message) {
      messages.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
    };
    for (const Event& event : ready)
      event.kind == EventKind::kPayload ? link->deliver_complete(take) : link->receive(take);
    return ready.size();
  }

  Events events;
  std::unique_ptr<TcpLink> link;
  std::vector<std::string> messages;
};

class Link : public ::testing::Test {
 protected:
  void SetUp() override {
    pair([this](Fd one, Fd other) {
      here.take(std::move(one));
      there.take(std::move(other));
    });
    EXPECT_FALSE(here.link->carries_payloads());
    pair([this](Fd one, Fd other) {
      here.take_payloads(true, std::move(one));
      payload_of_there = other.get();
      there.take_payloads(false, std::move(other));
    });
    EXPECT_FALSE(here.link->carries_payloads());
    pair([this](Fd one, Fd other) {
      here.take_payloads(false, std::move(one));
      there.take_payloads(true, std::move(other));
    });
    EXPECT_TRUE(here.link->carries_payloads());
  }

  template <class Use>
  static void pair(Use&& use) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    use(Fd(ends[0]), Fd(ends[1]));
  }

  // Until both ends have nothing to do.
  void settle() {
    for (int quiet = 0; quiet < 3;) quiet = here.look() + there.look() == 0 ? quiet + 1 : 0;
  }

  void send(const std::string& head, const std::string& payload) {
    here.link->send(bytes_of(head), bytes_of(payload));
  }

  End here;
  End there;
  int payload_of_there = -1;
};

TEST_F(Link, PayloadsAndMessagesComeInTheirOrder) {
  std::vector<std::string> sent;
  // Small ones go with the message; the largest by far is more than sockets hold.
  for (const size_t size :
       {size_t{0}, size_t{8192}, size_t{8193}, size_t{65536}, size_t{3} << 20, size_t{10}}) {
    sent.push_back("head of " + std::to_string(size) +
                   std::string(size, static_cast<char>('a' + sent.size())));
    send(sent.back().substr(0, sent.back().size() - size),
         sent.back().substr(sent.back().size() - size));
    sent.emplace_back("between");
    send("between", "");
  }
  EXPECT_FALSE(here.link->all_sent());
  settle();
  EXPECT_EQ(there.messages, sent);
  EXPECT_TRUE(here.link->all_sent());
}

TEST_F(Link, APayloadThatIsAheadWakesNobodyForLong) {
  const std::string payload(20000, 'p');
  const auto frame = make_split_frame(bytes_of("head"), payload.size());
  pair([&](Fd one, Fd other) {
    // The message's own connection is this test's, so that it can come late.
    End late;
    late.take(std::move(other));
    pair([&](Fd payloads, Fd its) {
      late.take_payloads(false, std::move(its));
      ASSERT_EQ(::send(payloads.get(), payload.data(), payload.size(), 0),
                static_cast<ssize_t>(payload.size()));
      late.look();
      for (int i = 0; i < 3; ++i) EXPECT_EQ(late.look(), 0u);
      ASSERT_EQ(::send(one.get(), frame.data(), frame.size(), 0),
                static_cast<ssize_t>(frame.size()));
      late.look();
      EXPECT_EQ(late.messages, std::vector<std::string>{"head" + payload});
      EXPECT_EQ(late.link->ending(), TcpLink::Ending::kNone);
    });
  });
}

TEST_F(Link, EndsIfAPayloadDoesNotCome) {
  const std::string payload(size_t{3} << 20, 'p');
  send("head", payload);
  send("behind", "");
  there.look();
  // as if the network had cut this connection and not the other
  ::shutdown(payload_of_there, SHUT_RD);
  settle();
  EXPECT_TRUE(there.messages.empty());
  EXPECT_EQ(there.link->ending(), TcpLink::Ending::kClosed);
  EXPECT_EQ(there.link->cause(), "closed its connection");
}

TEST_F(Link, NeedsItsPayloadConnectionForPayloadsOnly) {
  ::shutdown(payload_of_there, SHUT_RDWR);
  send("small", "payload");
  settle();
  EXPECT_EQ(there.messages, std::vector<std::string>{"smallpayload"});
  EXPECT_EQ(there.link->ending(), TcpLink::Ending::kNone);
}

// The other end learns it at once, not when it next misses a sign of life.
TEST_F(Link, EndsIfAPayloadCanNotBeSent) {
  ::shutdown(payload_of_there, SHUT_RDWR);
  here.link->send(bytes_of("said before"), {});
  send("head", std::string(9000, 'p'));
  settle();
  EXPECT_EQ(there.messages, std::vector<std::string>{"said before"});
  EXPECT_EQ(there.link->ending(), TcpLink::Ending::kClosed);
  EXPECT_TRUE(here.link->all_sent());
  there.link->send(bytes_of("heard"), {});
  settle();
  EXPECT_EQ(here.messages, std::vector<std::string>{"heard"});
}

TEST(LinkWithoutPayloads, SendsThemWithTheMessageAndTakesNoneApart) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  End here;
  End there;
  here.take(Fd(ends[0]));
  there.take(Fd(ends[1]));
  const std::string payload(50000, 'p');
  here.link->send(bytes_of("head"), bytes_of(payload));
  there.look();
  EXPECT_EQ(there.messages, std::vector<std::string>{"head" + payload});
  const auto frame = make_split_frame(bytes_of("head"), 9000);
  ASSERT_EQ(::send(ends[0], frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
  there.look();
  EXPECT_EQ(there.link->ending(), TcpLink::Ending::kClosed);
  EXPECT_NE(there.link->cause().find("payload without a connection for it"), std::string::npos)
      << there.link->cause();
}

}  // namespace
}  // namespace hvd::transport
