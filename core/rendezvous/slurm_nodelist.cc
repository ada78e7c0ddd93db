// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/slurm_nodelist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "rendezvous/env.h"

namespace hvd::rendezvous {
namespace {

constexpr size_t kLongestHost = 255;

Status bad(std::string_view text, const std::string& why) {
  return {Code::kInvalidArgument, "Slurm list " + quoted(std::string(text)) + ": " + why};
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

uint32_t number_of(std::string_view digits) {
  uint32_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// Cuts the text before the next comma off that is not inside brackets.
std::string_view take_item(std::string_view& left) {
  bool inside = false;
  size_t end = 0;
  for (; end < left.size() && (inside || left[end] != ','); ++end) {
    if (left[end] == '[') inside = true;
    if (left[end] == ']') inside = false;
  }
  const std::string_view item = left.substr(0, end);
  left.remove_prefix(std::min(end + 1, left.size()));
  return item;
}

// Appends the names that the inside of one pair of brackets stands for. False if the inside is no
// list, or a list longer than `most`.
bool expand_brackets(std::string_view inside, size_t most, std::vector<std::string>& out) {
  if (inside.empty() || inside.back() == ',') return false;
  while (!inside.empty()) {
    const std::string_view item = inside.substr(0, inside.find(','));
    inside.remove_prefix(std::min(item.size() + 1, inside.size()));
    const size_t dash = item.find('-');
    const std::string_view first = item.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : item.substr(dash + 1);
    if (dash == std::string_view::npos) {
      if (!is_word(item) || out.size() >= most) return false;
      out.emplace_back(item);
      continue;
    }
    if (!is_number(first) || !is_number(last) || number_of(first) > number_of(last)) return false;
    if (number_of(last) - number_of(first) >= most - std::min(most, out.size())) return false;
    for (uint32_t number = number_of(first); number <= number_of(last); ++number) {
      const std::string digits = std::to_string(number);
      out.push_back(std::string(first.size() - std::min(first.size(), digits.size()), '0') +
                    digits);
    }
  }
  return true;
}

bool too_long(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.size() > kLongestHost; });
}

// Every name that one item stands for; empty if it is none, or more than `most`.
std::vector<std::string> expand_item(std::string_view item, size_t most) {
  std::vector<std::string> names = {""};
  while (!item.empty()) {
    const size_t open = item.find('[');
    const std::string_view plain = item.substr(0, open);
    if (!plain.empty() && !is_word(plain)) return {};
    for (std::string& name : names) name += plain;
    if (open == std::string_view::npos) break;
    const size_t close = item.find(']', open);
    if (close == std::string_view::npos) return {};
    std::vector<std::string> parts, product;
    if (!expand_brackets(item.substr(open + 1, close - open - 1), most, parts)) return {};
    if (parts.size() * names.size() > most) return {};
    for (const std::string& name : names) {
      for (const std::string& part : parts) product.push_back(name + part);
    }
    names = std::move(product);
    item.remove_prefix(close + 1);
    if (too_long(names)) return {};
  }
  if (names.front().empty() || too_long(names)) return {};
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_nodelist(std::string_view text, size_t most) {
  std::vector<std::string> hosts;
  std::string_view left = text;
  do {
    const std::string_view item = take_item(left);
    const std::vector<std::string> names =
        item.empty() ? std::vector<std::string>{} : expand_item(item, most);
    const bool more_follows = left.empty() && text.ends_with(',');
    if (names.empty() || more_follows || hosts.size() + names.size() > most) {
      return bad(text, "is not a list of at most " + std::to_string(most) +
                           " hosts like \"node[01-03,7],login\"");
    }
    hosts.insert(hosts.end(), names.begin(), names.end());
  } while (!left.empty());
  return hosts;
}

Result<int> tasks_on_node(std::string_view text, int node) {
  std::string_view left = text;
  int64_t first = 0;
  while (!left.empty()) {
    const std::string_view item = left.substr(0, left.find(','));
    left.remove_prefix(std::min(item.size() + 1, left.size()));
    const std::string_view tasks = item.substr(0, item.find('('));
    std::string_view times = item.substr(tasks.size());
    if (times.empty()) times = "(x1)";
    const bool repeated = times.size() > 3 && times.starts_with("(x") && times.back() == ')';
    if (!is_number(tasks) || !repeated || !is_number(times.substr(2, times.size() - 3))) break;
    const int64_t nodes = number_of(times.substr(2, times.size() - 3));
    if (node >= first && node < first + nodes) return static_cast<int>(number_of(tasks));
    first += nodes;
  }
  return bad(text, "does not say how many tasks node " + std::to_string(node) +
                       " has; allowed: lists like \"2(x3),1\"");
}

}  // namespace hvd::rendezvous
