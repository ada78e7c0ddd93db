// SPDX-License-Identifier: Apache-2.0
#include "secure/identity.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace hvd::secure {
namespace {

constexpr std::string_view kVersion = "hvd1";

bool is_name(std::string_view text, size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

template <class Number>
bool read(std::string_view text, Number lowest, Number& number) {
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc{} && end == last && number >= lowest;
}

}  // namespace

std::string Identity::text() const {
  return std::string(kVersion) + " " + job + " " + std::to_string(epoch) + " " +
         std::to_string(client) + " " + std::to_string(server) + " " + purpose;
}

std::optional<Identity> Identity::parse(std::string_view text) {
  if (text.size() > kLongestIdentity) return std::nullopt;
  std::array<std::string_view, 6> words;
  std::string_view rest = text;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t space = rest.find(' ');
    if ((space == std::string_view::npos) != (i + 1 == words.size())) return std::nullopt;
    words[i] = rest.substr(0, space);
    rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  }
  Identity identity;
  if (words[0] != kVersion || !is_name(words[1], 100) || !is_name(words[5], 40))
    return std::nullopt;
  if (!read<int64_t>(words[2], 0, identity.epoch) ||
      !read<int32_t>(words[3], kUnranked, identity.client) ||
      !read<int32_t>(words[4], 0, identity.server)) {
    return std::nullopt;
  }
  identity.job = words[1];
  identity.purpose = words[5];
  // Numbers have more than one spelling ("-0", "007"); keys must not.
  if (identity.text() != text) return std::nullopt;
  return identity;
}

}  // namespace hvd::secure
