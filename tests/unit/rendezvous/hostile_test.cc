// SPDX-License-Identifier: Apache-2.0
// S3 and S7 of the reliability design, and its rows D1 to D3: strangers of every kind against a
// server whose ranks work on.
#include "hostile.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "rendezvous/store_protocol.h"
#include "rendezvous/tcp_store.h"
#include "unit/collectives/sanitizers.h"
#include "unit/time_scale.h"

namespace hvd::rendezvous {
namespace {

constexpr int kSize = 8;

// A job whose rank 0 serves.
class Hostile : public ::testing::Test {
 protected:
  Hostile() {
    StoreSettings settings = secret_settings(0, kSize, now() + 10s);
    settings.log = log_.logger();
    store_ = TcpStore::open(url_, settings).value();
  }
  uint64_t refused() const { return store_->server()->refused(); }
  ClientInfo rank(int number) const { return {url_.job, number, right_}; }
  void expect_closed(std::string_view text) {
    const Fd stranger = raw_connection(server_);
    send_text(stranger, text);
    EXPECT_TRUE(is_closed_within(stranger, 4s)) << text.substr(0, 20);
  }

  LineCounter log_;
  const TcpUrl url_ = fresh_tcp_url();
  const SocketAddress server_ = address_of(url_);
  const std::shared_ptr<const secure::Keyring> right_ = keyring_of('a');
  const std::shared_ptr<const secure::Keyring> wrong_ = keyring_of('b');
  std::shared_ptr<RemoteStore> store_;
};

TEST_F(Hostile, S3_WrongKeyRankEpochPurposeOrJob) {
  const secure::Identity right{url_.job, 0, 3, 0, "store"};
  secure::Identity rank = right, epoch = right, purpose = right, job = right, server = right;
  rank.client = kSize;
  epoch.epoch = 1;
  purpose.purpose = "control";
  job.job = "other";
  server.server = 1;
  const uint64_t before = refused();
  EXPECT_FALSE(outcome_of(server_, *wrong_, right, 3).ok());
  for (const secure::Identity& wrong : {rank, epoch, purpose, job, server}) {
    EXPECT_FALSE(outcome_of(server_, *right_, wrong, wrong.client).ok()) << wrong.text();
  }
  EXPECT_FALSE(outcome_of(server_, *right_, right, 4).ok()) << "proves one rank, greets as another";
  EXPECT_EQ(refused(), before + 7);
  EXPECT_TRUE(outcome_of(server_, *right_, right, 3).ok()) << "the right one is not shut out";
}

TEST_F(Hostile, S3_AReplayedRecordingIsRefused) {
  const std::string recording = recording_of_a_rank(server_, rank(3));
  const uint64_t before = refused();
  for (int round = 0; round < 100; ++round) expect_closed(recording);
  EXPECT_EQ(refused(), before + 100);
  EXPECT_TRUE(outcome_of(server_, rank(3)).ok());
}

TEST_F(Hostile, S7_WhatIsNotOursIsClosedAtOnce) {
  Bytes plain;
  put_request(plain, {Verb::kHello, 3, url_.job, kGreeting});
  const uint64_t before = refused();
  expect_closed("GET /key HTTP/1.1\r\nHost: localhost\r\n\r\n");
  expect_closed("SSH-2.0-OpenSSH_9.2p1\r\n");
  expect_closed(std::string(1000, '\0'));
  expect_closed(std::string_view("\0\0\0\x40", 4));  // a length of 1 GiB
  expect_closed(as_text(plain));                     // a rank without the secret
  expect_closed(ordinary_client_hello());
  expect_closed(std::string_view("\x16\x03\x01\xff\xff\x01", 6));  // a TLS record that is too long
  expect_closed("\x16 is where TLS begins, but not where it ends");
  EXPECT_EQ(refused(), before + 8);
}

TEST_F(Hostile, S7_AnEndlessFirstMessageIsCutOff) {
  const Fd stranger = raw_connection(server_);
  std::string endless("\x16\x03\x01\x40\x00\x01\x00\xff\xfc", 9);
  endless.resize(64 << 10);
  send_text(stranger, endless);
  EXPECT_TRUE(is_closed_within(stranger, 4s));
}

TEST_F(Hostile, S7_ARecordingCutAtEachByte) {
  const std::string recording = recording_of_a_rank(server_, rank(3));
  for (size_t size = 0; size < recording.size(); ++size) {
    const Fd stranger = raw_connection(server_);
    send_text(stranger, std::string_view(recording).substr(0, size));
    ::shutdown(stranger.get(), SHUT_WR);
    ASSERT_TRUE(is_closed_within(stranger, 4s)) << size;
  }
  EXPECT_TRUE(outcome_of(server_, rank(3)).ok());
}

TEST_F(Hostile, S7_NobodyHasMoreThanFiveSeconds) {
  const std::string recording = recording_of_a_rank(server_, rank(3));
  std::vector<Fd> strangers;
  for (const size_t words : {size_t{0}, size_t{1}, recording.size() / 4}) {
    strangers.push_back(raw_connection(server_));
    send_text(strangers.back(), std::string_view(recording).substr(0, words));
  }
  // Proves that it belongs to the job, and says no more.
  auto mute = right_->connect(raw_connection(server_), store_identity(url_.job, 4)).value();
  for (Status status = Status::pending(); status.code() == Code::kPending;)
    status = mute->handshake();
  const Time start = now();
  const Fd slow = raw_connection(server_);
  std::atomic<bool> closed{false};
  // it would not come to its end in the time
  const Duration pause = Duration(20s) / recording.size();
  std::thread drip([&] {
    for (size_t at = 0; at < recording.size() && !closed; ++at) {
      send_text(slow, std::string_view(recording).substr(at, 1));
      std::this_thread::sleep_for(pause);
    }
  });
  EXPECT_TRUE(is_closed_within(slow, 9s));  // five, and what a loaded machine adds
  closed = true;
  EXPECT_GE(now() - start, 4900ms);
  for (const Fd& stranger : strangers) EXPECT_TRUE(is_closed_within(stranger, 4s));
  std::byte byte{};
  Result<size_t> got = mute->read(std::span(&byte, 1));
  for (const Time end = now() + 4s; got.status().code() == Code::kPending && now() < end;) {
    std::this_thread::sleep_for(1ms);
    got = mute->read(std::span(&byte, 1));
  }
  EXPECT_EQ(got.status().code(), Code::kPeerLost);
  drip.join();
  EXPECT_TRUE(store_->set("key", "x").ok());
}

TEST_F(Hostile, S7_HalfOpenConnectionsFromOnePlaceDoNotKeepOthersOut) {
  std::vector<Fd> silent;
  for (int count = 0; count < 400; ++count) silent.push_back(raw_connection(server_, "127.9.9.9"));
  const Time start = now();
  EXPECT_TRUE(outcome_of(server_, rank(3)).ok());
  EXPECT_LT(now() - start, hvd::testing::scaled(2s));
  EXPECT_GE(refused(), 400u - 64u);
  silent.clear();
}

// What an attacker may try, one after the other.
class Attacker {
 public:
  Attacker(const SocketAddress& server, const std::string& recording,
           const std::shared_ptr<const secure::Keyring>& wrong)
      : server_(server), recording_(recording), wrong_(wrong) {}

  void attack(int number) {
    const std::string from = "127.8.0." + std::to_string(1 + number % 3);
    if (number % 10 == 9) {
      if (outcome_of(server_, {"job", number % kSize, wrong_}).ok()) ++joined_;
      return;
    }
    Fd stranger = raw_connection(server_, from);
    send_text(stranger, words(number));
    if (number % 10 < 6) {
      held_.push_back(std::move(stranger));
      if (held_.size() > 100) held_.erase(held_.begin());
    }
  }
  int joined() const { return joined_; }

 private:
  std::string words(int number) {
    switch (number % 10) {
      case 0: return "";  // half-open
      case 1: return recording_.substr(0, random_() % recording_.size());
      case 2: return recording_;
      case 3: return ordinary_;
      case 4: return recording_.substr(0, 1);
      case 5: return "GET / HTTP/1.1\r\n\r\n";
      case 6: return "SSH-2.0-x\r\n";
      case 7: return std::string("\xff\xff\xff\x7f", 4);
      default: break;
    }
    std::string garbage(1 + random_() % 3000, '\0');
    for (char& c : garbage) c = static_cast<char>(random_());
    return garbage;
  }

  const SocketAddress& server_;
  const std::string& recording_;
  const std::shared_ptr<const secure::Keyring> wrong_;
  const std::string ordinary_ = ordinary_client_hello();
  std::mt19937_64 random_{20261121};
  std::vector<Fd> held_;
  int joined_ = 0;
};

// Ranks 1 to kSize - 2 join, each takes its turn 100 times, all leave.
void work(const TcpUrl& url, std::atomic<int>& good) {
  std::vector<std::thread> ranks;
  for (int rank = 1; rank < kSize - 1; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto store = TcpStore::open(url, secret_settings(rank, kSize, now() + 20s));
      if (!store.ok()) {
        ADD_FAILURE() << store.status().message();
        return;
      }
      for (int turn = 0; turn < 100; ++turn) {
        const std::string key = std::to_string(rank) + "/" + std::to_string(turn);
        const std::string other =
            std::to_string(rank % (kSize - 2) + 1) + "/" + std::to_string(turn);
        if (!store.value()->set(key, key).ok() || !store.value()->get(other, now() + 20s).ok())
          return;
        std::this_thread::sleep_for(2ms);
      }
      ++good;
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(Hostile, D1_ThousandsOfHostileConnectionsDisturbNobody) {
  constexpr int kAttacks = 2400;
  const std::string recording = recording_of_a_rank(server_, rank(kSize - 1));
  {
    Attacker warm_up(server_, recording, wrong_);
    for (int number = 0; number < 300; ++number) warm_up.attack(number);
  }
  const size_t descriptors = open_descriptors(), memory = resident_kib();
  std::atomic<int> good{0}, attacks{0};
  int joined = 0;
  std::thread attacker([&] {
    Attacker hostile(server_, recording, wrong_);
    for (int number = 0; number < kAttacks; ++number, ++attacks) hostile.attack(number);
    joined = hostile.joined();
  });
  while (attacks < 100) std::this_thread::yield();
  const Time start = now();
  work(url_, good);
  const Duration worked = now() - start;
  attacker.join();
  EXPECT_EQ(good, kSize - 2);
  EXPECT_LT(worked, hvd::testing::scaled(10s));
  EXPECT_EQ(joined, 0);
  EXPECT_GE(refused(), static_cast<uint64_t>(kAttacks) / 2);
  // The last ones to leave are gone when the server has looked at them.
  for (const Time end = now() + 5s; open_descriptors() > descriptors && now() < end;)
    std::this_thread::sleep_for(1ms);
  EXPECT_LE(open_descriptors(), descriptors);
  if (!test::kSanitized) {
    EXPECT_LT(resident_kib(), memory + 4096);  // sanitizers remember what was freed
  }
  EXPECT_LE(log_.lines().size(), 14u);
  for (const std::string& line : log_.lines())
    EXPECT_NE(line.find(" refused: "), std::string::npos) << line;
  EXPECT_TRUE(outcome_of(server_, rank(kSize - 1)).ok())
      << "the recorded rank has not been replaced";
}

}  // namespace
}  // namespace hvd::rendezvous
