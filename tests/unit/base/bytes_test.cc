// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/hash.h"

namespace hvd {
namespace {

TEST(Bytes, ReadsBackWhatWasWritten) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put<uint16_t>(7);
  writer.put<int64_t>(-9);
  writer.put_text("name");
  writer.put<double>(0.5);
  writer.patch<uint16_t>(0, 8);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<uint16_t>(), 8);
  EXPECT_EQ(reader.get<int64_t>(), -9);
  EXPECT_EQ(reader.take_text(4), "name");
  EXPECT_EQ(reader.get<double>(), 0.5);
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(reader.at_end());
}

TEST(Bytes, AReaderThatFailedStaysFailed) {
  Bytes bytes(5);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.get<uint64_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<uint8_t>(), 0u);
  EXPECT_EQ(reader.take(SIZE_MAX).size(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.left(), 0u);
}

TEST(Fingerprint, DependsOnEveryByteTheLengthAndTheSeed) {
  std::set<std::pair<uint64_t, uint64_t>> seen;
  size_t made = 0;
  const auto add = [&](const std::string& text, uint64_t seed) {
    const Fingerprint print = fingerprint(as_byte_span(text), seed);
    seen.emplace(print.high, print.low);
    ++made;
  };
  for (size_t size = 0; size <= 70; ++size) {
    add(std::string(size, '\0'), 0);
    add(std::string(size, '\0'), 1);
    for (size_t at = 0; at < size; ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string text(size, '\0');
        text[at] = static_cast<char>(1 << bit);
        add(text, 0);
      }
    }
  }
  EXPECT_EQ(seen.size(), made);
}

}  // namespace
}  // namespace hvd
