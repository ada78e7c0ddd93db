// SPDX-License-Identifier: Apache-2.0
#include "transport/frames.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "transport/ring.h"

namespace hvd::transport {
namespace {

std::vector<std::byte> frame(FrameKind kind, const std::string& body) {
  return make_frame(kind, std::as_bytes(std::span(body)));
}

// Of a split one with the number of the bytes that come elsewhere.
std::string text_of(const FrameReader::Message& message) {
  const std::string text(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
  return message.apart == 0 ? text : text + "+" + std::to_string(message.apart);
}

// Feeds `bytes` in pieces of `step`; the messages that come out.
std::vector<std::string> read(FrameReader& reader, const std::vector<std::byte>& bytes,
                              size_t step) {
  std::vector<std::string> messages;
  for (size_t at = 0; at < bytes.size();) {
    const std::span<std::byte> room = reader.room();
    const size_t count = std::min({step, bytes.size() - at, room.size()});
    std::memcpy(room.data(), bytes.data() + at, count);
    reader.filled(count);
    at += count;
    while (const auto message = reader.next()) messages.push_back(text_of(*message));
  }
  return messages;
}

std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& frames) {
  std::vector<std::byte> all;
  for (const auto& bytes : frames) all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

TEST(Frames, ComeOutAsTheyWentInHoweverTheyAreCut) {
  const std::string large(300000, 'x');
  const auto bytes = joined({frame(FrameKind::kMessage, "one"), frame(FrameKind::kAlive, ""),
                             frame(FrameKind::kMessage, ""), frame(FrameKind::kMessage, large),
                             make_split_frame(std::as_bytes(std::span("head", 4)), 70000),
                             frame(FrameKind::kGoodbye, ""), frame(FrameKind::kMessage, "late")});
  for (const size_t step : {size_t{1}, size_t{7}, size_t{4096}, bytes.size()}) {
    FrameReader reader;
    EXPECT_EQ((std::vector<std::string>{"one", "", large, "head+70000"}), read(reader, bytes, step))
        << step;
    EXPECT_EQ(FrameReader::Ending::kGoodbye, reader.ending());
  }
}

TEST(Frames, TooLongUnknownOrBurdenedOnesAreMalformed) {
  const uint32_t cases[][2] = {
      {static_cast<uint32_t>(kMaxMessage) + 1, 0}, {0, 4}, {1, 1}, {1, 2}, {0xffffffff, 0}, {3, 3}};
  for (const auto& header : cases) {
    FrameReader reader;
    std::vector<std::byte> bytes(sizeof header + 8);
    std::memcpy(bytes.data(), header, sizeof header);
    EXPECT_TRUE(read(reader, bytes, bytes.size()).empty());
    EXPECT_EQ(FrameReader::Ending::kMalformed, reader.ending()) << header[0] << " " << header[1];
  }
  for (const size_t apart : {size_t{0}, kMaxMessage - 3}) {
    FrameReader reader;
    EXPECT_TRUE(
        read(reader, make_split_frame(std::as_bytes(std::span("head", 4)), apart), 100).empty());
    EXPECT_EQ(FrameReader::Ending::kMalformed, reader.ending()) << apart;
  }
}

}  // namespace
}  // namespace hvd::transport
