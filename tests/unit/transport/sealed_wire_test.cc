// SPDX-License-Identifier: Apache-2.0
#include "transport/sealed_wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>

#include "unit/transport/pieces.h"

namespace hvd::transport {
namespace {

using testing::pieces_of;

struct Pair {
  Fd left, right;
  Pair() {
    int sockets[2];
    EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets));
    left.reset(sockets[0]);
    right.reset(sockets[1]);
  }
};

std::unique_ptr<secure::Seal> seal(uint8_t digit) {
  secure::Secret::Key key{};
  key.fill(digit);
  return secure::Seal::make(key).value();
}

std::vector<std::byte> random_bytes(size_t size, std::minstd_rand& random) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(SealedWire, BothDirectionsInPiecesOfEverySize) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    std::minstd_rand random(seed);
    Pair pair;
    const std::unique_ptr<Wire> wires[2] = {sealed_wire(std::move(pair.left), {seal(1), seal(2)}),
                                            sealed_wire(std::move(pair.right), {seal(2), seal(1)})};
    const size_t total = 7 * kSealedRecord + 4321;
    std::vector<std::byte> out[2] = {random_bytes(total, random), random_bytes(total, random)};
    std::vector<std::byte> in[2] = {std::vector<std::byte>(total), std::vector<std::byte>(total)};
    size_t sent[2] = {0, 0}, received[2] = {0, 0};
    while (received[0] < total || received[1] < total) {
      const size_t side = random() % 2;
      const bool sends = random() % 2 == 0;
      const std::vector<iovec> pieces = sends ? pieces_of(out[side], sent[side], random)
                                              : pieces_of(in[side], received[side], random);
      const Result<size_t> moved = sends ? wires[side]->send(pieces) : wires[side]->receive(pieces);
      ASSERT_TRUE(moved.ok() || moved.status().code() == Code::kPending)
          << moved.status().message();
      if (moved.ok()) (sends ? sent : received)[side] += moved.value();
    }
    EXPECT_EQ(in[0], out[1]);
    EXPECT_EQ(in[1], out[0]);
  }
}

// What one record of `bytes` looks like on the way.
std::vector<std::byte> on_the_way(Wire& sender, int tap, std::vector<std::byte> bytes) {
  const iovec piece{bytes.data(), bytes.size()};
  EXPECT_EQ(bytes.size(), sender.send(std::span(&piece, 1)).value());
  std::vector<std::byte> seen(bytes.size() + 1000);
  const ssize_t count = ::recv(tap, seen.data(), seen.size(), MSG_DONTWAIT);
  seen.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return seen;
}

struct Tapped {
  Pair before, after;
  std::unique_ptr<Wire> sender = sealed_wire(std::move(before.left), {seal(1), seal(2)});
  std::unique_ptr<Wire> receiver = sealed_wire(std::move(after.right), {seal(2), seal(1)});

  std::vector<std::byte> record(std::vector<std::byte> bytes) {
    return on_the_way(*sender, before.right.get(), std::move(bytes));
  }
  void deliver(std::span<const std::byte> bytes) {
    ASSERT_EQ(static_cast<ssize_t>(bytes.size()),
              ::send(after.left.get(), bytes.data(), bytes.size(), MSG_DONTWAIT));
  }
  Result<size_t> receive() {
    const iovec piece{got_.data(), got_.size()};
    return receiver->receive(std::span(&piece, 1));
  }

 private:
  std::array<std::byte, 4096> got_{};
};

TEST(SealedWire, EveryAlteredByteIsFound) {
  std::minstd_rand random(7);
  size_t refused = 0, waits = 0, records = 0;
  for (size_t at = 0; at < 120; ++at) {
    Tapped line;
    std::vector<std::byte> record = line.record(random_bytes(100, random));
    ASSERT_EQ(120u, record.size());
    record[at] ^= static_cast<std::byte>(1 << (random() % 8));
    line.deliver(record);
    const Result<size_t> got = line.receive();
    ASSERT_FALSE(got.ok()) << "byte " << at;
    ++records;
    // An altered length may ask for more bytes than there are.
    waits += got.status().code() == Code::kPending ? 1 : 0;
    refused +=
        got.status().message() == "sent data that was altered on the way: its checksum is wrong"
            ? 1
            : 0;
  }
  EXPECT_EQ(records, refused + waits);
  EXPECT_LE(waits, 2u);
}

TEST(SealedWire, RecordsCannotBeRepeatedReorderedOrLeftOut) {
  std::minstd_rand random(8);
  for (const std::vector<size_t>& order : {std::vector<size_t>{0, 0}, {1, 0}, {1}, {2}}) {
    Tapped line;
    std::vector<std::vector<std::byte>> records;
    for (int i = 0; i < 3; ++i) records.push_back(line.record(random_bytes(50, random)));
    for (const size_t i : order) line.deliver(records[i]);
    Result<size_t> got = line.receive();
    if (order[0] == 0) {
      // Both were there: the error is known, and nothing will wake anybody for it.
      EXPECT_EQ(50u, got.value());
      EXPECT_EQ(Code::kIo, line.receiver->failure().code());
      EXPECT_TRUE(line.receiver->buffered());
      got = line.receive();
    }
    EXPECT_EQ(Code::kIo, got.status().code());
  }
}

TEST(SealedWire, AnotherKeyOrTheOtherDirectionsIsRefused) {
  std::minstd_rand random(9);
  for (const uint8_t key : {uint8_t{2}, uint8_t{3}}) {
    Tapped line;
    line.sender = sealed_wire(Fd(::dup(line.sender->fd())), {seal(key), seal(2)});
    line.deliver(line.record(random_bytes(50, random)));
    EXPECT_EQ(Code::kIo, line.receive().status().code());
  }
}

TEST(SealedWire, EndsWithTheConnection) {
  Tapped line;
  line.deliver(std::vector<std::byte>(10));
  EXPECT_EQ(Code::kPending, line.receive().status().code());
  line.after.left.reset();
  EXPECT_EQ(Code::kPeerLost, line.receive().status().code());
}

}  // namespace
}  // namespace hvd::transport
