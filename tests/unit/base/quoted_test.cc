// SPDX-License-Identifier: Apache-2.0
#include "base/quoted.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hvd {
namespace {

TEST(Quoted, PlainTextIsQuotedOnly) {
  EXPECT_EQ(in_quotes("grad/w3"), "\"grad/w3\"");
  EXPECT_EQ(in_quotes(""), "\"\"");
  EXPECT_EQ(in_quotes("größe 数"), "\"größe 数\"");
  EXPECT_EQ(in_quotes(std::string(200, 'x')), "\"" + std::string(200, 'x') + "\"");
}

TEST(Quoted, OneLineWithoutControlCharacters) {
  EXPECT_EQ(in_quotes("a\nb\tc"), "\"a\\nb\\tc\"");
  EXPECT_EQ(in_quotes("\x1b[31m\x7f"), "\"\\x1b[31m\\x7f\"");
  EXPECT_EQ(in_quotes("say \"no\" \\"), "\"say \\\"no\\\" \\\\\"");
  EXPECT_EQ(in_quotes(std::string_view("a\0b", 3)), "\"a\\x00b\"");
}

TEST(Quoted, OfALongTextHeadAndTailAreShown) {
  const std::string text = "layer0." + std::string(3000, 'y') + ".weight";
  const std::string shown = in_quotes(text);
  EXPECT_LT(shown.size(), 230u);
  EXPECT_EQ(shown.rfind("\"layer0.y", 0), 0u) << shown;
  EXPECT_TRUE(shown.ends_with("y.weight\"")) << shown;
  EXPECT_NE(shown.find("...(2834 bytes)..."), std::string::npos) << shown;
}

TEST(Quoted, CutsBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 700; ++i) text += "\u6570";
  for (int lead = 0; lead < 3; ++lead) {
    const std::string shown = in_quotes(std::string(static_cast<size_t>(lead), 'a') + text);
    const size_t cut = shown.find("...(");
    ASSERT_NE(cut, std::string::npos);
    EXPECT_EQ((cut - 1 - static_cast<size_t>(lead)) % 3, 0u) << shown;
    const size_t on = shown.find(")...") + 4;
    EXPECT_EQ((shown.size() - 1 - on) % 3, 0u) << shown;
  }
}

}  // namespace
}  // namespace hvd
