// SPDX-License-Identifier: Apache-2.0
#include "base/quoted.h"

#include <cstdio>

namespace hvd {

namespace {

constexpr size_t kLongest = 200;  // bytes of the text: the line has to hold the facts too
constexpr size_t kHead = 110;
constexpr size_t kTail = 70;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

void append(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  if (text.size() <= kLongest) {
    append(out, text);
    return out + "\"";
  }
  size_t head = kHead, tail = text.size() - kTail;
  while (head > kHead - 4 && continues(text[head])) --head;
  while (tail < text.size() - kTail + 4 && continues(text[tail])) ++tail;
  append(out, text.substr(0, head));
  out += "...(" + std::to_string(tail - head) + " bytes)...";
  append(out, text.substr(tail));
  return out + "\"";
}

}  // namespace hvd
