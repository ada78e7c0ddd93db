// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/url.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/address.h"

namespace hvd::rendezvous {
namespace {

constexpr size_t kLongestPath = 3000;  // leaves room for file names below PATH_MAX
constexpr size_t kLongestName = 100;
// leaves room for the user's number in the 107 bytes of a socket's name
constexpr size_t kLongestUnixName = 80;

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), plain);
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
    return bad(url, "path has " + std::to_string(path.size()) + " bytes; allowed: at most " +
                        std::to_string(kLongestPath));
  }
  if (path.find('\0') != std::string_view::npos) return bad(url, "path contains a NUL byte");
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path == "/") return bad(url, "the root directory cannot belong to a job");
  return Url(FileUrl{std::string(path)});
}

// Numbers and dots that are no address would be looked up, or read as an old short form of one.
Status check_host(std::string_view url, std::string_view host, bool bracketed) {
  const bool known = std::all_of(host.begin(), host.end(),
                                 [&](char c) { return plain(c) || (bracketed && c == ':'); });
  const bool numeric = bracketed || host.find_first_not_of("0123456789.") == std::string_view::npos;
  const std::optional<SocketAddress> address = SocketAddress::parse(host, 0);
  if (host.empty() || host.size() > 255 || !known || (numeric && !address)) {
    return bad(url, "host is neither a name nor an address");
  }
  if (address && address->is_any())
    return bad(url, "host " + std::string(host) + " stands for no address of its own");
  return {};
}

Result<Candidate> parse_candidate(std::string_view url, std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad(url, "no port; allowed: tcp://host:port/job");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  HVD_TRY(check_host(url, host, bracketed));
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number == 0) {
    return bad(url, "port is not an integer from 1 to 65535");
  }
  return Candidate{std::string(host), number};
}

Result<Url> parse_tcp(std::string_view url, std::string_view rest) {
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return bad(url, "no job; allowed: tcp://host:port/job");
  TcpUrl parsed;
  parsed.job = rest.substr(slash + 1);
  if (!is_name(parsed.job))
    return bad(url, "job is not 1 to 100 letters, digits, dots, underscores or hyphens");
  std::string_view list = rest.substr(0, slash);
  for (bool more = true; more;) {
    const size_t comma = list.find(',');
    more = comma != std::string_view::npos;
    if (parsed.candidates.size() == kMostCandidates) {
      return bad(url, "more than " + std::to_string(kMostCandidates) + " addresses");
    }
    Result<Candidate> candidate = parse_candidate(url, list.substr(0, comma));
    if (!candidate.ok()) return candidate.status();
    parsed.candidates.push_back(std::move(candidate).value());
    if (more) list.remove_prefix(comma + 1);
  }
  return Url(std::move(parsed));
}

}  // namespace

Result<Url> parse_url(std::string_view url) {
  std::string_view rest = url;
  if (rest == "env:") return Url(EnvUrl{});
  if (consume(rest, "file://")) return parse_file(url, rest);
  if (consume(rest, "tcp://")) return parse_tcp(url, rest);
  if (consume(rest, "mem://")) {
    if (!is_name(rest))
      return bad(url, "name is not 1 to 100 letters, digits, dots, underscores or hyphens");
    return Url(MemoryUrl{std::string(rest)});
  }
  if (consume(rest, "unix://")) {
    if (!is_name(rest) || rest.size() > kLongestUnixName) {
      return bad(url, "name is not 1 to 80 letters, digits, dots, underscores or hyphens");
    }
    return Url(UnixUrl{std::string(rest)});
  }
  return bad(url,
             "allowed: env:, file:///directory, tcp://host:port/job, unix://name or mem://name");
}

std::string Candidate::text() const {
  return (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" +
         std::to_string(port);
}

std::string TcpUrl::text() const {
  std::string text = "tcp://";
  for (const Candidate& candidate : candidates)
    text += (&candidate == &candidates.front() ? "" : ",") + candidate.text();
  return text + "/" + job;
}

std::string TcpUrl::summary() const {
  for (const Candidate& candidate : candidates) {
    if (candidates.size() == 1 || candidate.host != candidates.front().host) return text();
  }
  return "tcp://" + candidates.front().text() + "-" + std::to_string(candidates.back().port) + "/" +
         job;
}

std::string job_of(const Url& url) {
  if (const TcpUrl* tcp = std::get_if<TcpUrl>(&url)) return tcp->job;
  if (const UnixUrl* local = std::get_if<UnixUrl>(&url)) return local->name;
  if (const MemoryUrl* memory = std::get_if<MemoryUrl>(&url)) return memory->name;
  return "job";
}

}  // namespace hvd::rendezvous
