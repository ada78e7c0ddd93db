// SPDX-License-Identifier: Apache-2.0
#include "observe/json.h"

#include <charconv>
#include <cstdio>

namespace hvd::observe {

namespace {

constexpr std::string_view kNoCharacter = "\xef\xbf\xbd";  // U+FFFD

unsigned byte_at(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

// How many bytes the character at the beginning has that is not ASCII; 0 if it is none.
size_t character_size(std::string_view text) {
  const unsigned first = byte_at(text, 0), second = byte_at(text, 1);
  size_t size = 0;
  unsigned low = 0x80, high = 0xbf;  // limits of the second byte
  if (first >= 0xc2 && first <= 0xdf) {
    size = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    size = 3;
    if (first == 0xe0) low = 0xa0;   // longer than needed
    if (first == 0xed) high = 0x9f;  // halves of UTF-16
  } else if (first >= 0xf0 && first <= 0xf4) {
    size = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  }
  if (size == 0 || second < low || second > high) return 0;
  for (size_t i = 2; i < size; ++i)
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  return size;
}

}  // namespace

void append_text(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    size_t taken = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[0];
    } else if (c < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", unsigned{c});
      out += code;
    } else if (c < 0x80) {
      out += text[0];
    } else {
      const size_t size = character_size(text);
      out += size == 0 ? kNoCharacter : text.substr(0, size);
      taken = size == 0 ? 1 : size;
    }
    text.remove_prefix(taken);
  }
  out += '"';
}

void append_number(std::string& out, int64_t number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

void append_microseconds(std::string& out, int64_t nanoseconds) {
  if (nanoseconds < 0) out += '-';
  const uint64_t size =
      nanoseconds < 0 ? 0 - static_cast<uint64_t>(nanoseconds) : static_cast<uint64_t>(nanoseconds);
  append_number(out, static_cast<int64_t>(size / 1000));
  const unsigned rest = static_cast<unsigned>(size % 1000);
  const char digits[] = {'.', static_cast<char>('0' + rest / 100),
                         static_cast<char>('0' + rest / 10 % 10),
                         static_cast<char>('0' + rest % 10)};
  out.append(digits, sizeof digits);
}

}  // namespace hvd::observe
