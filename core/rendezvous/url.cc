// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/url.h"

#include <algorithm>
#include <charconv>

namespace hvd::rendezvous {
namespace {

constexpr size_t kLongestPath = 3000;  // leaves room for file names below PATH_MAX
constexpr size_t kLongestName = 100;

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && std::all_of(text.begin(), text.end(), plain);
}

bool consume(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

Status bad(std::string_view url, const std::string& why) {
  std::string shown;
  for (const char c : url.substr(0, 100)) shown += c >= ' ' && c <= '~' ? c : '?';
  if (url.size() > 100) shown += "...";
  return {Code::kInvalidArgument, "rendezvous \"" + shown + "\": " + why};
}

Result<Url> parse_file(std::string_view url, std::string_view path) {
  if (!path.starts_with('/')) return bad(url, "path is not absolute; allowed: file:///directory");
  if (path.size() > kLongestPath) {
    return bad(url, "path has " + std::to_string(path.size()) + " bytes; allowed: at most " + std::to_string(kLongestPath));
  }
  if (path.find('\0') != std::string_view::npos) return bad(url, "path contains a NUL byte");
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path == "/") return bad(url, "the root directory cannot belong to a job");
  return Url(FileUrl{std::string(path)});
}

Result<Url> parse_tcp(std::string_view url, std::string_view rest) {
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return bad(url, "no job; allowed: tcp://host:port/job");
  const std::string_view job = rest.substr(slash + 1);
  const std::string_view address = rest.substr(0, slash);
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return bad(url, "no port; allowed: tcp://host:port/job");
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool known = std::all_of(host.begin(), host.end(), [&](char c) { return plain(c) || (bracketed && c == ':'); });
  if (host.empty() || host.size() > 255 || !known) return bad(url, "host is neither a name nor an address");
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number == 0) {
    return bad(url, "port is not an integer from 1 to 65535");
  }
  if (!is_name(job)) return bad(url, "job is not 1 to 100 letters, digits, dots, underscores or hyphens");
  return Url(TcpUrl{std::string(host), number, std::string(job)});
}

}  // namespace

Result<Url> parse_url(std::string_view url) {
  std::string_view rest = url;
  if (rest == "env:") return Url(EnvUrl{});
  if (consume(rest, "file://")) return parse_file(url, rest);
  if (consume(rest, "tcp://")) return parse_tcp(url, rest);
  if (consume(rest, "mem://")) {
    if (!is_name(rest)) return bad(url, "name is not 1 to 100 letters, digits, dots, underscores or hyphens");
    return Url(MemoryUrl{std::string(rest)});
  }
  return bad(url, "allowed: env:, file:///directory, tcp://host:port/job or mem://name");
}

}  // namespace hvd::rendezvous
