// SPDX-License-Identifier: Apache-2.0
#include "observe/json.h"

#include <gtest/gtest.h>

namespace hvd::observe {
namespace {

std::string text(std::string_view given) {
  std::string out;
  append_text(out, given);
  return out;
}

std::string microseconds(int64_t given) {
  std::string out;
  append_microseconds(out, given);
  return out;
}

TEST(Json, EscapesWhatAParserWouldRefuse) {
  EXPECT_EQ(text("layer.1/weight"), R"("layer.1/weight")");
  EXPECT_EQ(text("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(text(std::string_view("\n\t\x01\0\x7f", 5)), R"("\u000a\u0009\u0001\u0000\u007f")");
  EXPECT_EQ(text("größe 層 \xf0\x9f\x98\x80"), "\"größe 層 \xf0\x9f\x98\x80\"");
}

TEST(Json, ReplacesBytesThatAreNoUtf8) {
  const std::string none = "\xef\xbf\xbd";
  EXPECT_EQ(text("a\xc3"), "\"a" + none + "\"");                      // cut short
  EXPECT_EQ(text("\xa4z"), "\"" + none + "z\"");                      // only the end
  EXPECT_EQ(text("\xc0\xaf"), "\"" + none + none + "\"");             // longer than needed
  EXPECT_EQ(text("\xed\xa0\x80"), "\"" + none + none + none + "\"");  // half of a pair
  EXPECT_EQ(text("\xf5\x80\x80\x80"), "\"" + none + none + none + none + "\"");  // too large
}

TEST(Json, WritesMicrosecondsToTheNanosecond) {
  EXPECT_EQ(microseconds(0), "0.000");
  EXPECT_EQ(microseconds(1), "0.001");
  EXPECT_EQ(microseconds(1'234'567), "1234.567");
  EXPECT_EQ(microseconds(-1'050), "-1.050");
  EXPECT_EQ(microseconds(INT64_MIN), "-9223372036854775.808");
}

}  // namespace
}  // namespace hvd::observe
