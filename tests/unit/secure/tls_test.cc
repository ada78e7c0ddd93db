// SPDX-License-Identifier: Apache-2.0
#include "secure/tls.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

namespace hvd::secure {
namespace {

struct Ends {
  std::unique_ptr<TlsSocket> client, server;
  Status client_status, server_status;
};

std::shared_ptr<Keyring> keyring_of(char digit) {
  Result<Secret> secret = Secret::parse(std::string(64, digit));
  return Keyring::make(std::move(secret).value()).value();
}

const Identity kIdentity{"job", 0, 1, 0, "control"};

// Both ends take steps in turn until each has finished or failed.
Ends shake(const Keyring& theirs, const Keyring& ours, const Identity& identity,
           const Keyring::Admit& admit) {
  int pair[2];
  EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
  Ends ends;
  ends.client = std::move(theirs.connect(Fd(pair[0]), identity)).value();
  ends.server = std::move(ours.accept(Fd(pair[1]), admit)).value();
  ends.client_status = ends.server_status = Status::pending();
  for (int turn = 0; turn < 20; ++turn) {
    if (ends.client_status.code() == Code::kPending) ends.client_status = ends.client->handshake();
    if (ends.server_status.code() == Code::kPending) ends.server_status = ends.server->handshake();
    if (ends.server_status.code() < Code::kOk) ends.server.reset();  // closes
  }
  return ends;
}

bool anyone(const Identity&) { return true; }

TEST(Tls, CarriesBytesBothWaysAndKnowsWhoSpeaks) {
  const auto ring = keyring_of('a');
  Ends ends = shake(*ring, *ring, kIdentity, anyone);
  ASSERT_TRUE(ends.client_status.ok()) << ends.client_status.message();
  ASSERT_TRUE(ends.server_status.ok()) << ends.server_status.message();
  EXPECT_EQ(kIdentity.text(), ends.server->identity().text());
  const std::string text = "hello";
  ASSERT_EQ(text.size(), ends.client->write(std::as_bytes(std::span(text))).value());
  std::array<std::byte, 3> part;
  ASSERT_EQ(3u, ends.server->read(part).value());
  EXPECT_TRUE(ends.server->buffered());
  std::array<std::byte, 64> rest;
  ASSERT_EQ(2u, ends.server->read(rest).value());
  EXPECT_EQ(0, std::memcmp(rest.data(), "lo", 2));
  EXPECT_FALSE(ends.server->buffered());
  EXPECT_EQ(Code::kPending, ends.server->read(rest).status().code());
  ends.client.reset();
  EXPECT_EQ(Code::kPeerLost, ends.server->read(rest).status().code());
}

TEST(Tls, RefusesAnotherSecret) {
  const Ends ends = shake(*keyring_of('a'), *keyring_of('b'), kIdentity, anyone);
  EXPECT_EQ(Code::kMismatch, ends.server_status.code()) << ends.server_status.message();
  EXPECT_FALSE(ends.client_status.ok());
  EXPECT_NE(Code::kPending, ends.client_status.code());
}

TEST(Tls, RefusesAnIdentityThatIsNotExpected) {
  const auto ring = keyring_of('a');
  const Ends ends =
      shake(*ring, *ring, kIdentity, [](const Identity& claimed) { return claimed.client == 2; });
  EXPECT_EQ(Code::kMismatch, ends.server_status.code()) << ends.server_status.message();
  EXPECT_FALSE(ends.client_status.ok());
}

TEST(Tls, GoesOnInPlainAfterRelease) {
  const auto ring = keyring_of('a');
  Ends ends = shake(*ring, *ring, kIdentity, anyone);
  ASSERT_TRUE(ends.server_status.ok());
  const Fd client = ends.client->release();
  const Fd server = ends.server->release();
  ASSERT_EQ(5, ::send(client.get(), "plain", 5, 0));
  char got[8] = {};
  ASSERT_EQ(5, ::recv(server.get(), got, sizeof got, MSG_DONTWAIT));
  EXPECT_STREQ("plain", got);
}

TEST(Tls, LimitsWhatAStrangerMaySend) {
  const auto ring = keyring_of('a');
  int pair[2];
  ASSERT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
  const Fd stranger(pair[0]);
  auto server = std::move(ring->accept(Fd(pair[1]), anyone)).value();
  // A handshake record that is announced as long, byte after byte of nothing.
  std::string flood =
      std::string("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", 9) + std::string(40000, '\0');
  Status status = Status::pending();
  for (size_t at = 0; at < flood.size() && status.code() == Code::kPending;) {
    const ssize_t sent = ::send(stranger.get(), flood.data() + at,
                                std::min<size_t>(1000, flood.size() - at), MSG_NOSIGNAL);
    if (sent > 0) at += static_cast<size_t>(sent);
    status = server->handshake();
  }
  EXPECT_EQ(Code::kMismatch, status.code()) << status.message();
}

TEST(Tls, ReadingAheadTakesAllThatIsThere) {
  const auto ring = keyring_of('a');
  Ends ends = shake(*ring, *ring, kIdentity, anyone);
  ends.server->read_ahead();
  const std::string text = "hello";
  for (int record = 0; record < 3; ++record)
    ASSERT_TRUE(ends.client->write(std::as_bytes(std::span(text))).ok());
  std::array<std::byte, 5> part;
  for (int record = 0; record < 3; ++record) {
    ASSERT_EQ(5u, ends.server->read(part).value());
    EXPECT_EQ(record < 2, ends.server->buffered());
    std::byte more;
    EXPECT_EQ(-1, ::recv(ends.server->fd(), &more, 1, MSG_PEEK | MSG_DONTWAIT))
        << "the system has handed everything over";
  }
  EXPECT_EQ(Code::kPending, ends.server->read(part).status().code());
}

TEST(Tls, ChecksumsOfOneConnectionFitItsOtherEndOnly) {
  const auto ring = keyring_of('a');
  Ends ends = shake(*ring, *ring, kIdentity, anyone),
       others = shake(*ring, *ring, kIdentity, anyone);
  const std::string text = "data";
  const iovec piece{const_cast<char*>(text.data()), text.size()};
  const auto tag = [&](std::unique_ptr<Seal>& seal) {
    return seal->next(std::span(&piece, 1)).value();
  };
  Seals client = ends.client->make_seals().value(), server = ends.server->make_seals().value();
  Seals other = others.server->make_seals().value();
  const Seal::Tag sent = tag(client.sending);
  EXPECT_TRUE(same_tag(sent, tag(server.receiving)));
  EXPECT_FALSE(same_tag(sent, tag(server.sending)));
  EXPECT_FALSE(same_tag(sent, tag(other.receiving)));
  EXPECT_FALSE(same_tag(sent, tag(client.sending))) << "the second record has another tag";
}

}  // namespace
}  // namespace hvd::secure
