// SPDX-License-Identifier: Apache-2.0
// S3 of the reliability design at the level of single connections: who does not know the key for
// exactly this connection does not get through it, however often it is tried.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "secure/tls.h"

namespace hvd::secure {
namespace {

constexpr int kAttempts = 1000;
const Identity kRight{"job", 7, 3, 1, "control"};

std::shared_ptr<Keyring> keyring(char digit) {
  return Keyring::make(Secret::parse(std::string(64, digit)).value()).value();
}

bool is_right(const Identity& claimed) { return claimed.text() == kRight.text(); }

struct Pair {
  Fd ours, theirs;
  Pair() {
    int pair[2];
    EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
    ours.reset(pair[0]);
    theirs.reset(pair[1]);
  }
};

// Both ends take steps in turn until one has failed or both are through.
bool accepted(const Keyring& theirs, const Keyring& ours, const Identity& identity) {
  Pair pair;
  auto client = std::move(theirs.connect(std::move(pair.theirs), identity)).value();
  auto server = std::move(ours.accept(std::move(pair.ours), is_right)).value();
  Status there = Status::pending(), here = Status::pending();
  for (int turn = 0; turn < 10; ++turn) {
    if (there.code() == Code::kPending) there = client->handshake();
    if (here.code() == Code::kPending) here = server->handshake();
    if (here.code() < Code::kOk || there.code() < Code::kOk) return false;
  }
  return here.ok() && there.ok();
}

class S3 : public ::testing::Test {
 protected:
  void expect_none(const Keyring& theirs, const Identity& identity) {
    int count = 0;
    for (int attempt = 0; attempt < kAttempts; ++attempt)
      count += accepted(theirs, *ours_, identity) ? 1 : 0;
    EXPECT_EQ(0, count);
    EXPECT_TRUE(accepted(*ours_, *ours_, kRight));
  }
  const std::shared_ptr<Keyring> ours_ = keyring('a');
};

TEST_F(S3, WrongKey) { expect_none(*keyring('b'), kRight); }

TEST_F(S3, WrongRank) {
  Identity wrong = kRight;
  wrong.client = 4;
  expect_none(*ours_, wrong);
}

TEST_F(S3, WrongEpoch) {
  Identity wrong = kRight;
  wrong.epoch = 6;
  expect_none(*ours_, wrong);
}

TEST_F(S3, WrongPurpose) {
  Identity wrong = kRight;
  wrong.purpose = "store";
  expect_none(*ours_, wrong);
}

TEST_F(S3, AKeyIsForOneDirection) {
  Identity wrong = kRight;
  std::swap(wrong.client, wrong.server);
  expect_none(*ours_, wrong);
}

// Moves what is there from one socket to the other, and returns it.
std::string forward(const Fd& from, const Fd& to) {
  char bytes[4096];
  const ssize_t got = ::recv(from.get(), bytes, sizeof bytes, 0);
  if (got <= 0) return "";
  EXPECT_EQ(got, ::send(to.get(), bytes, static_cast<size_t>(got), 0));
  return std::string(bytes, static_cast<size_t>(got));
}

// What a client sends until it has proved itself.
std::string recording(const Keyring& ring) {
  Pair near, far;
  auto client = std::move(ring.connect(std::move(near.theirs), kRight)).value();
  auto server = std::move(ring.accept(std::move(far.ours), is_right)).value();
  std::string noted;
  for (int turn = 0; turn < 10; ++turn) {
    static_cast<void>(client->handshake());
    static_cast<void>(server->handshake());
    noted += forward(near.ours, far.theirs);
    forward(far.theirs, near.ours);
  }
  EXPECT_TRUE(server->handshake().ok());
  return noted;
}

Status play(const Keyring& ring, std::string_view bytes) {
  Pair pair;
  auto server = std::move(ring.accept(std::move(pair.ours), is_right)).value();
  EXPECT_EQ(static_cast<ssize_t>(bytes.size()),
            ::send(pair.theirs.get(), bytes.data(), bytes.size(), 0));
  ::shutdown(pair.theirs.get(), SHUT_WR);
  Status status = Status::pending();
  for (int turn = 0; turn < 10 && status.code() == Code::kPending; ++turn)
    status = server->handshake();
  return status;
}

TEST_F(S3, AReplayedRecording) {
  const std::string noted = recording(*ours_);
  ASSERT_GT(noted.size(), 200u);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Status status = play(*ours_, noted);
    ASSERT_FALSE(status.ok());
    ASSERT_NE(Code::kPending, status.code());
  }
}

TEST_F(S3, ARecordingCutOrChangedAtEachByte) {
  const std::string noted = recording(*ours_);
  for (size_t at = 0; at < noted.size(); ++at) {
    EXPECT_FALSE(play(*ours_, noted.substr(0, at)).ok()) << at;
    std::string changed = noted;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    EXPECT_FALSE(play(*ours_, changed).ok()) << at;
  }
}

TEST(Keyrings, AreAsManyAsOneLikes) {
  for (int number = 0; number < 300; ++number) {
    const auto ring = keyring('a');
    ASSERT_TRUE(accepted(*ring, *ring, kRight)) << number;
  }
}

TEST(Identities, AreReadAsTheyAreWritten) {
  EXPECT_EQ("hvd1 job 7 3 1 control", kRight.text());
  EXPECT_EQ(kRight.text(), Identity::parse(kRight.text()).value().text());
  for (const char* text :
       {"", "hvd1", "hvd2 job 7 3 1 control", "hvd1 job 7 3 1", "hvd1 job 7 3 1 control ",
        "hvd1 job 07 3 1 control", "hvd1 job -1 3 1 control", "hvd1 job 7 -2 1 control",
        "hvd1 job 7 3 -1 control", "hvd1 job 7 3 1 a/b", "hvd1  7 3 1 control",
        "hvd1 job 7 3 1 control x", "hvd1 job 9223372036854775808 3 1 control",
        "hvd1 job 7 2147483648 1 control"}) {
    EXPECT_FALSE(Identity::parse(text)) << text;
  }
}

}  // namespace
}  // namespace hvd::secure
