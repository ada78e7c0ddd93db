// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <type_traits>
#include <variant>

namespace hvd {
namespace {

// The values that a row of options.def allows.
struct Range {
  double lowest;
  double highest;
};
struct Choice {
  std::string_view words;  // separated by single spaces; empty: any text
  bool name = false;       // any word that can be a part of a file's name
};
constexpr Range range(double lowest, double highest) { return {lowest, highest}; }
constexpr Range truth() { return {0, 1}; }
constexpr Choice one_of(std::string_view words) { return {words}; }
constexpr Choice any_text() { return {{}}; }
constexpr Choice any_name() { return {{}, true}; }

using Member =
    std::variant<int64_t Options::*, double Options::*, bool Options::*, std::string Options::*>;

struct Row {
  const char* name;
  const char* default_text;
  const char* help;
  bool run_time;
  std::variant<Range, Choice> allowed;
  Member member;
};

#define HVD_DEFAULT_int(value) #value
#define HVD_DEFAULT_double(value) #value
#define HVD_DEFAULT_bool(value) #value
#define HVD_DEFAULT_text(value) value
#define HVD_HELP_at_init(help) help
#define HVD_HELP_at_run_time(help) help "; changes at run time"
constexpr bool at_init = false;
constexpr bool at_run_time = true;

constexpr Row kRows[] = {
#define HVD_OPTION(name, type, default_value, allowed, when, help) \
  {#name, HVD_DEFAULT_##type(default_value), HVD_HELP_##when(help), when, allowed, &Options::name},
#include "base/options.def"
};
constexpr size_t kCount = std::size(kRows);

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower(c);
  return result;
}

template <class Number>
std::string number_text(Number number) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  return {buffer, end};
}

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> read_bool(std::string_view text) {
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  if (const auto number = read_number<int64_t>(word)) return *number > 0;
  return std::nullopt;
}

bool in_range(double value, const Range& allowed) {
  return value >= allowed.lowest && value <= allowed.highest;
}

bool is_one_of(std::string_view word, std::string_view words) {
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

bool is_name(std::string_view text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

// Each reads `text` for one type of option; nothing if it is not allowed.
std::optional<int64_t> read(const Row& row, std::string_view text, int64_t Options::*) {
  const auto number = read_number<int64_t>(text);
  return number && in_range(static_cast<double>(*number), std::get<Range>(row.allowed))
             ? number
             : std::nullopt;
}
std::optional<double> read(const Row& row, std::string_view text, double Options::*) {
  const auto number = read_number<double>(text);
  return number && in_range(*number, std::get<Range>(row.allowed)) ? number : std::nullopt;
}
std::optional<bool> read(const Row&, std::string_view text, bool Options::*) {
  return read_bool(text);
}
std::optional<std::string> read(const Row& row, std::string_view text, std::string Options::*) {
  const auto [words, name] = std::get<Choice>(row.allowed);
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  if (name) return is_name(text) ? std::optional(lower(text)) : std::nullopt;
  if (words.empty()) return std::string(text);
  std::string word = lower(text);
  return is_one_of(word, words) ? std::optional(std::move(word)) : std::nullopt;
}

std::string describe_allowed(const Row& row) {
  if (std::holds_alternative<bool Options::*>(row.member))
    return "1, true, yes, on, 0, false, no, off or an integer";
  if (const Range* range = std::get_if<Range>(&row.allowed)) {
    const bool whole = std::holds_alternative<int64_t Options::*>(row.member);
    const auto bound = [&](double value) {
      return whole ? number_text(static_cast<int64_t>(value)) : number_text(value);
    };
    return std::string(whole ? "integers" : "numbers") + " from " + bound(range->lowest) + " to " +
           bound(range->highest);
  }
  const auto [words, name] = std::get<Choice>(row.allowed);
  if (name) return "names of letters, digits, _ and -";
  return words.empty() ? "text without a NUL byte" : std::string(words);
}

// Values come from outside and can be long or binary: the message shows their beginning, printable.
std::string quoted(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string result = "\"";
  for (const char c : text.substr(0, kShown)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kShown ? "...\"" : "\"");
}

Status assign(Options& options, const Row& row, std::string_view subject, std::string_view text) {
  return std::visit(
      [&](auto member) -> Status {
        auto value = read(row, text, member);
        if (!value) {
          return {Code::kInvalidArgument, std::string(subject) + ": value " + quoted(text) +
                                              " is not allowed; allowed: " + describe_allowed(row)};
        }
        options.*member = std::move(*value);
        return {};
      },
      row.member);
}

Status unknown(std::string_view name) {
  return {Code::kNotFound, "option " + quoted(name) + " does not exist"};
}

}  // namespace

size_t option_count() noexcept { return kCount; }
const char* option_name(size_t index) noexcept {
  return index < kCount ? kRows[index].name : nullptr;
}
const char* option_default(size_t index) noexcept {
  return index < kCount ? kRows[index].default_text : nullptr;
}
const char* option_help(size_t index) noexcept {
  return index < kCount ? kRows[index].help : nullptr;
}
bool changes_at_run_time(size_t index) noexcept { return index < kCount && kRows[index].run_time; }

std::optional<size_t> find_option(std::string_view name) noexcept {
  for (size_t index = 0; index < kCount; ++index) {
    if (name == kRows[index].name) return index;
  }
  return std::nullopt;
}

std::string option_variable(std::string_view name) {
  std::string variable = "HOROVOD_";
  for (const char c : name) variable += upper(c);
  return variable;
}

Status Options::set(std::string_view name, std::string_view text) {
  const auto index = find_option(name);
  if (!index) return unknown(name);
  return assign(*this, kRows[*index], "option \"" + std::string(name) + "\"", text);
}

Result<std::string> Options::get(std::string_view name) const {
  const auto index = find_option(name);
  if (!index) return unknown(name);
  return std::visit(
      [&](auto member) -> std::string {
        using Value = std::remove_cvref_t<decltype(this->*member)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return this->*member;
        } else if constexpr (std::is_same_v<Value, bool>) {
          return this->*member ? "1" : "0";
        } else {
          return number_text(this->*member);
        }
      },
      kRows[*index].member);
}

Status Options::load(const Environment& environment) {
  for (const Row& row : kRows) {
    const std::string variable = option_variable(row.name);
    const auto text = environment(variable);
    // Scripts clear a variable by making it empty.
    if (!text || text->empty()) continue;
    HVD_TRY(assign(*this, row, variable, *text));
  }
  return {};
}

}  // namespace hvd
