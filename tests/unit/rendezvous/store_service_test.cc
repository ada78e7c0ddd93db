// SPDX-License-Identifier: Apache-2.0
// The server's behaviour byte by byte, with a clock that the test turns.
#include "rendezvous/store_service.h"

#include <gtest/gtest.h>

namespace hvd::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kJob = "job";

class Service : public ::testing::Test {
 protected:
  static Bytes frame(const Request& request) {
    Bytes bytes;
    put_request(bytes, request);
    return bytes;
  }
  bool send(int client, const Request& request) {
    return service_.receive(client, frame(request), now_);
  }

  // Takes the one reply that is there.
  Reply take(int client) {
    const auto out = service_.output(client);
    taken_.assign(out.begin(), out.end());
    if (taken_.empty()) {
      ADD_FAILURE() << "no reply for client " << client;
      return {};
    }
    service_.sent(client, taken_.size(), now_);
    const auto reply = read_reply(std::span(taken_).subspan(kFrameHeader));
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(Reply{});
  }
  void join(int client, int64_t rank = -1) {
    service_.connect(client, now_);
    ASSERT_TRUE(send(client, {Verb::kHello, rank, kJob, kGreeting}));
    ASSERT_EQ(take(client).code, Code::kOk);
  }
  bool silent(int client) const { return service_.output(client).empty(); }

  Time now_{1h};
  StoreService service_{std::string(kJob)};
  Bytes taken_;
};

TEST_F(Service, AnswersInTurns) {
  join(1);
  ASSERT_TRUE(send(1, {Verb::kSet, 0, "key", "value"}));
  EXPECT_EQ(take(1).code, Code::kOk);
  ASSERT_TRUE(send(1, {Verb::kGet, 0, "key", {}}));
  EXPECT_EQ(take(1).text, "value");
  ASSERT_TRUE(send(1, {Verb::kAdd, 4, "counter", {}}));
  EXPECT_EQ(take(1).number, 4);
  ASSERT_TRUE(send(1, {Verb::kRemove, 0, "key", {}}));
  EXPECT_EQ(take(1).code, Code::kOk);
}

TEST_F(Service, BytesMayComeOneByOne) {
  service_.connect(1, now_);
  for (const Request& request :
       {Request{Verb::kHello, 0, kJob, kGreeting}, Request{Verb::kSet, 0, "key", "value"}}) {
    for (const std::byte byte : frame(request)) {
      EXPECT_TRUE(silent(1));
      ASSERT_TRUE(service_.receive(1, std::span(&byte, 1), now_));
    }
    EXPECT_EQ(take(1).code, Code::kOk);
  }
}

TEST_F(Service, AWaitEndsWithTheKeyOrTheTime) {
  join(1);
  join(2);
  join(3);
  ASSERT_TRUE(send(1, {Verb::kGet, Duration(2s).count(), "key", {}}));
  ASSERT_TRUE(send(2, {Verb::kGet, -1, "key", {}}));
  EXPECT_FALSE(service_.wants_input(1));
  EXPECT_EQ(service_.next_tick(), now_ + 2s);
  now_ += 2s;
  EXPECT_EQ(service_.tick(now_), -1);
  const Reply late = take(1);
  EXPECT_EQ(late.code, Code::kTimeout);
  EXPECT_EQ(late.text, "key \"key\" did not appear in 2 s");
  now_ += 1000h;
  EXPECT_EQ(service_.tick(now_), -1);
  EXPECT_TRUE(silent(2));
  ASSERT_TRUE(send(3, {Verb::kSet, 0, "key", "x"}));
  EXPECT_EQ(take(2).text, "x");
  EXPECT_TRUE(silent(1));
  EXPECT_EQ(take(3).code, Code::kOk);
  EXPECT_EQ(service_.next_tick(), kNever);
}

TEST_F(Service, AWaitingClientThatIsGoneIsForgotten) {
  join(1);
  join(2);
  ASSERT_TRUE(send(1, {Verb::kGet, -1, "key", {}}));
  service_.drop(1);
  ASSERT_TRUE(send(2, {Verb::kSet, 0, "key", "x"}));
  EXPECT_EQ(take(2).code, Code::kOk);
}

TEST_F(Service, ProtocolErrorsAreDropped) {
  const auto refuses = [&](const Bytes& bytes, bool greeted) {
    StoreService service{std::string(kJob)};
    service.connect(1, now_);
    if (greeted) {
      if (!service.receive(1, frame({Verb::kHello, 0, kJob, kGreeting}), now_)) return false;
      service.sent(1, service.output(1).size(), now_);
    }
    return !service.receive(1, bytes, now_);
  };
  const auto text = [](std::string_view bytes) {
    return Bytes(as_byte_span(bytes).begin(), as_byte_span(bytes).end());
  };
  EXPECT_TRUE(refuses(text("GET / HTTP/1.1\r\n\r\n"), false));
  EXPECT_TRUE(refuses(text("\xff\xff\xff\xff"), false));
  EXPECT_TRUE(refuses(text("\xff\xff\xff\xff"), true));
  EXPECT_TRUE(refuses(text(std::string_view("\0\0\0\0", 4)), true));
  EXPECT_TRUE(refuses(frame({Verb::kSet, 0, "key", "x"}), false)) << "no greeting";
  EXPECT_TRUE(
      refuses(frame({Verb::kHello, 0, kJob, std::string(kLongestGreeting + 1, 'x')}), false));
  EXPECT_TRUE(refuses(frame({Verb::kHello, 0, kJob, "hello"}), false)) << "another protocol";
  EXPECT_TRUE(refuses(frame({Verb::kHello, -2, kJob, kGreeting}), false)) << "no rank";
  EXPECT_TRUE(refuses(frame({Verb::kHello, 1, kJob, kGreeting}), true)) << "greeted twice";
  EXPECT_TRUE(refuses(frame({Verb::kSet, 0, std::string(kMaxKey + 1, 'x'), "x"}), true));
  EXPECT_TRUE(refuses(frame({Verb::kSet, 0, "", "x"}), true));
  EXPECT_TRUE(refuses(frame({Verb::kGet, 0, "key", "unexpected"}), true));
  EXPECT_TRUE(refuses(frame({static_cast<Verb>(6), 0, "key", {}}), true));
  EXPECT_TRUE(refuses(frame({static_cast<Verb>(0), 0, "key", {}}), true));
  Bytes two = frame({Verb::kGet, 0, "key", {}});
  const Bytes second = two;
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_TRUE(refuses(two, true)) << "two requests at once";
  EXPECT_FALSE(refuses(frame({Verb::kGet, 0, "key", {}}), true)) << "the frame itself is fine";
}

TEST_F(Service, AKeySizeBeyondTheBodyIsRefused) {
  join(1);
  Bytes bytes = frame({Verb::kGet, 0, "key", {}});
  const uint16_t size = 150;
  std::memcpy(bytes.data() + kFrameHeader + 2, &size, sizeof size);
  EXPECT_FALSE(service_.receive(1, bytes, now_));
}

TEST_F(Service, StrangersMaySendLittle) {
  service_.connect(1, now_);
  const uint32_t size = static_cast<uint32_t>(kLargestHello) + 1;
  EXPECT_FALSE(service_.receive(1, std::as_bytes(std::span(&size, 1)), now_));
}

TEST_F(Service, ClientsOfAnotherJobAreToldSo) {
  service_.connect(1, now_);
  ASSERT_TRUE(send(1, {Verb::kHello, 0, "other", kGreeting}));
  const Reply reply = take(1);
  EXPECT_EQ(reply.code, Code::kNotFound);
  EXPECT_EQ(reply.text, "the server there serves job \"job\"");
  EXPECT_FALSE(send(1, {Verb::kSet, 0, "key", "x"})) << "and not served";
}

TEST_F(Service, ARankComesOnce) {
  join(1, 3);
  ASSERT_TRUE(send(1, {Verb::kAdd, 1, "arrivals", {}}));
  EXPECT_EQ(take(1).number, 1);
  service_.drop(1);
  service_.connect(2, now_);
  ASSERT_TRUE(send(2, {Verb::kHello, 3, kJob, kGreeting}));
  EXPECT_EQ(take(2).text, "rank 3 has come already");
  join(4, -1);
  join(5, -1);
}

TEST_F(Service, ARankThatMayHaveMissedItsWelcomeComesAgain) {
  join(1, 3);
  service_.connect(2, now_);
  ASSERT_TRUE(send(2, {Verb::kHello, 3, kJob, kGreeting}));
  EXPECT_EQ(take(2).code, Code::kAlreadyExists) << "while the first connection is there";
  service_.drop(1);
  join(4, 3);
}

TEST_F(Service, ARankIsWhoItHasProvedToBe) {
  service_.connect(1, now_, 3);
  EXPECT_FALSE(send(1, {Verb::kHello, 2, kJob, kGreeting}));
  service_.connect(2, now_, 3);
  EXPECT_FALSE(send(2, {Verb::kHello, -1, kJob, kGreeting}));
  service_.connect(3, now_, 3);
  EXPECT_TRUE(send(3, {Verb::kHello, 3, kJob, kGreeting}));
  EXPECT_EQ(take(3).code, Code::kOk);
}

// S11 of the reliability design: versions that do not fit are refused by name.
TEST_F(Service, S11_OtherVersionsAreNamed) {
  int client = 0;
  for (const std::string greeting :
       {"hvd-store-1", "hvd-store 3 1.0.0", "hvd-store 2 2.0.0", "hvd-store 2 11.0.0"}) {
    service_.connect(++client, now_);
    ASSERT_TRUE(send(client, {Verb::kHello, 0, kJob, greeting})) << greeting;
    const Reply reply = take(client);
    EXPECT_EQ(reply.code, Code::kVersion);
    EXPECT_EQ(reply.text, "versions differ: this rank has " + greeting + ", the server " +
                              std::string(kGreeting));
    EXPECT_FALSE(service_.greeted(client));
    EXPECT_FALSE(send(client, {Verb::kSet, 0, "key", "x"})) << "and not served";
  }
  service_.connect(++client, now_);
  ASSERT_TRUE(send(client, {Verb::kHello, 0, kJob, "hvd-store 2 1.99.0"}));
  EXPECT_EQ(take(client).code, Code::kOk) << "minor versions fit";
  service_.connect(++client, now_);
  EXPECT_FALSE(send(client, {Verb::kHello, 1, kJob, "hvd-store 2 1.\n"})) << "not printable";
}

TEST_F(Service, WokenClientsAreReportedOnce) {
  join(1);
  join(2);
  ASSERT_TRUE(send(1, {Verb::kGet, Duration(2s).count(), "key", {}}));
  ASSERT_TRUE(send(2, {Verb::kSet, 0, "key", "x"}));
  EXPECT_EQ(service_.take_woken(), std::vector<int>{1});
  EXPECT_EQ(service_.take_woken(), std::vector<int>{});
  EXPECT_EQ(take(1).text, "x");
  EXPECT_EQ(take(2).code, Code::kOk);
  ASSERT_TRUE(send(1, {Verb::kGet, Duration(2s).count(), "other", {}}));
  EXPECT_EQ(service_.tick(now_ + 3s), -1);
  EXPECT_EQ(service_.take_woken(), std::vector<int>{1});
}

TEST_F(Service, SlowClientsAreNamedAndPatientOnesAreNot) {
  join(1);                    // silent between messages: fine
  service_.connect(2, now_);  // never greets
  join(3);
  const Bytes half = frame({Verb::kSet, 0, "key", "value"});
  ASSERT_TRUE(service_.receive(3, std::span(half).first(10), now_));
  EXPECT_EQ(service_.tick(now_ + StoreService::kGreetingTime - 1ns), -1);
  EXPECT_EQ(service_.next_tick(), now_ + StoreService::kGreetingTime);
  EXPECT_EQ(service_.tick(now_ + StoreService::kGreetingTime), 2);
  service_.drop(2);
  // One more byte does not buy more time.
  EXPECT_EQ(service_.next_tick(), now_ + StoreService::kPatience);
  ASSERT_TRUE(service_.receive(3, std::span(half).subspan(10, 1), now_ + 5s));
  now_ += StoreService::kPatience;
  EXPECT_EQ(service_.tick(now_), 3);
  service_.drop(3);
  EXPECT_EQ(service_.tick(now_ + 1000h), -1);
}

TEST_F(Service, AReplyThatIsNotTakenRunsOutOfPatience) {
  join(1);
  ASSERT_TRUE(send(1, {Verb::kSet, 0, "key", "x"}));
  EXPECT_FALSE(service_.wants_input(1));
  service_.sent(1, 3, now_ + 5s);
  EXPECT_EQ(service_.tick(now_ + 5s + StoreService::kPatience - 1ns), -1);
  EXPECT_EQ(service_.tick(now_ + 5s + StoreService::kPatience), 1);
}

TEST_F(Service, AFullStoreSaysSoAndHoldsWhatItHas) {
  join(1);
  const std::string value(kMaxValue, 'v');
  int stored = 0;
  Reply reply;
  for (; stored < 100; ++stored) {
    const std::string key = "key" + std::to_string(stored);
    ASSERT_TRUE(send(1, {Verb::kSet, 0, key, value}));
    reply = take(1);
    if (reply.code != Code::kOk) break;
  }
  EXPECT_EQ(stored, 63);
  EXPECT_EQ(reply.code, Code::kOutOfMemory);
  ASSERT_TRUE(send(1, {Verb::kGet, 0, "key0", {}}));
  EXPECT_EQ(take(1).text, value);
  // Replacing and removing give room back.
  ASSERT_TRUE(send(1, {Verb::kSet, 0, "key0", ""}));
  EXPECT_EQ(take(1).code, Code::kOk);
  ASSERT_TRUE(send(1, {Verb::kRemove, 0, "key1", {}}));
  EXPECT_EQ(take(1).code, Code::kOk);
  ASSERT_TRUE(send(1, {Verb::kSet, 0, "late", value}));
  EXPECT_EQ(take(1).code, Code::kOk);
}

}  // namespace
}  // namespace hvd::rendezvous
