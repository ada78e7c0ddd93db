// SPDX-License-Identifier: Apache-2.0
// Where ranks meet, as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace hvd::rendezvous {

struct EnvUrl {};  // "env:"
struct FileUrl {   // "file:///directory"
  std::string directory;
};
// An address at which the server may be reached: a name, or a numeric address without brackets.
struct Candidate {
  std::string host;
  uint16_t port = 0;

  std::string text() const;  // "node-1:7777", "[fd00::1]:7777"
};
struct TcpUrl {  // "tcp://host:port/job", "tcp://10.0.0.1:7777,[fd00::1]:7777/job"
  std::vector<Candidate> candidates;
  std::string job;

  std::string text() const;
  // For people: "tcp://h0:29501-29516/job" for several ports of one host, else the text.
  std::string summary() const;
};
struct UnixUrl {  // "unix://name": ranks of one user on one machine; at most 80 characters
  std::string name;
};
struct MemoryUrl {  // "mem://name"
  std::string name;
};
using Url = std::variant<EnvUrl, FileUrl, TcpUrl, UnixUrl, MemoryUrl>;

inline constexpr size_t kMostCandidates = 16;

// Nothing is decoded; the text is taken literally. Jobs and names are 1 to 100 letters, digits,
// `.`, `_`, `-`.
Result<Url> parse_url(std::string_view text);

// The name of the job that the URL carries, or "job" where it carries none.
std::string job_of(const Url& url);

}  // namespace hvd::rendezvous
