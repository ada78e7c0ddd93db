// SPDX-License-Identifier: Apache-2.0
// Where ranks meet, as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"

namespace hvd::rendezvous {

struct EnvUrl {};  // "env:"
struct FileUrl {   // "file:///directory"
  std::string directory;
};
struct TcpUrl {  // "tcp://host:port/job"
  std::string host;
  uint16_t port = 0;
  std::string job;
};
struct MemoryUrl {  // "mem://name"
  std::string name;
};
using Url = std::variant<EnvUrl, FileUrl, TcpUrl, MemoryUrl>;

// Nothing is decoded: what stands in the text is what is meant. Jobs and names are 1 to 100 letters, digits, `.`, `_`, `-`.
Result<Url> parse_url(std::string_view text);

}  // namespace hvd::rendezvous
