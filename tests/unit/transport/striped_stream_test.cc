// SPDX-License-Identifier: Apache-2.0
// Bytes over several connections come out in order, whatever each of them takes at a time.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/fd.h"
#include "transport/striped_stream.h"
#include "unit/transport/pieces.h"

namespace hvd::transport {
namespace {

using testing::pieces_of;

// One end of a socket pair.
class PairStream final : public Stream {
 public:
  explicit PairStream(Fd socket) : socket_(std::move(socket)) {}
  size_t send_some(std::span<const iovec> pieces) override {
    msghdr message = message_of(pieces);
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return moved(sent, sent < 0);
  }
  size_t receive_some(std::span<const iovec> pieces) override {
    msghdr message = message_of(pieces);
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    return moved(got, got <= 0);
  }
  bool failed() const override { return failed_; }

 private:
  static msghdr message_of(std::span<const iovec> pieces) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    return message;
  }
  size_t moved(ssize_t result, bool stopped) {
    if (!stopped) return static_cast<size_t>(result);
    if (result == 0 || errno != EAGAIN) failed_ = true;
    return 0;
  }

  Fd socket_;
  bool failed_ = false;
};

struct Ends {
  std::unique_ptr<StripedStream> left;
  std::unique_ptr<StripedStream> right;
};

Ends connect(int connections) {
  std::vector<std::unique_ptr<Stream>> left;
  std::vector<std::unique_ptr<Stream>> right;
  for (int i = 0; i < connections; ++i) {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    left.push_back(std::make_unique<PairStream>(Fd(sockets[0])));
    right.push_back(std::make_unique<PairStream>(Fd(sockets[1])));
  }
  return {std::make_unique<StripedStream>(std::move(left)),
          std::make_unique<StripedStream>(std::move(right))};
}

TEST(StripedStream, BothDirectionsAtOnce) {
  for (int connections : {1, 2, 3, 5}) {
    std::minstd_rand random(static_cast<unsigned>(connections));
    Ends ends = connect(connections);
    const size_t total = 3 * StripedStream::kStripe * 5 + 12345;
    std::vector<std::byte> out[2] = {std::vector<std::byte>(total), std::vector<std::byte>(total)};
    std::vector<std::byte> in[2] = {std::vector<std::byte>(total), std::vector<std::byte>(total)};
    for (auto& bytes : out) {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    }
    Stream* streams[2] = {ends.left.get(), ends.right.get()};
    size_t sent[2] = {0, 0};
    size_t received[2] = {0, 0};
    while (received[0] < total || received[1] < total) {
      const size_t side = random() % 2;
      if (random() % 2 == 0) {
        sent[side] += streams[side]->send_some(pieces_of(out[side], sent[side], random));
      } else {
        received[side] += streams[side]->receive_some(pieces_of(in[side], received[side], random));
      }
      ASSERT_FALSE(streams[side]->failed());
    }
    EXPECT_EQ(in[0], out[1]) << connections << " connections";
    EXPECT_EQ(in[1], out[0]) << connections << " connections";
  }
}

TEST(StripedStream, EveryConnectionCarriesItsShare) {
  std::vector<std::unique_ptr<Stream>> near;
  std::vector<Fd> far;
  for (int i = 0; i < 3; ++i) {
    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    near.push_back(std::make_unique<PairStream>(Fd(sockets[0])));
    far.emplace_back(sockets[1]);
  }
  StripedStream stream(std::move(near));
  std::vector<std::byte> bytes(3 * StripedStream::kStripe);
  const iovec piece{bytes.data(), bytes.size()};
  ASSERT_EQ(stream.send_some({&piece, 1}), bytes.size());
  for (const Fd& socket : far) {
    std::vector<std::byte> got(2 * StripedStream::kStripe);
    EXPECT_EQ(::recv(socket.get(), got.data(), got.size(), MSG_DONTWAIT),
              static_cast<ssize_t>(StripedStream::kStripe));
  }
}

TEST(StripedStream, OneFailureEndsAll) {
  Ends ends = connect(3);
  ends.right.reset();
  std::byte byte{};
  const iovec piece{&byte, 1};
  EXPECT_EQ(ends.left->receive_some({&piece, 1}), 0u);
  EXPECT_TRUE(ends.left->failed());
  EXPECT_EQ(ends.left->send_some({&piece, 1}), 0u);
}

}  // namespace
}  // namespace hvd::transport
