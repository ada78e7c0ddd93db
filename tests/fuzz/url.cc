// SPDX-License-Identifier: Apache-2.0
// Any text given as a rendezvous URL is either refused with one printable line or understood within the limits.
#include "rendezvous/url.h"

#include "target.h"

using namespace hvd;
using namespace hvd::rendezvous;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<Url> url = parse_url(fuzz::text(data, size));
  if (!url.ok()) {
    fuzz::check_error(url.status(), Code::kInvalidArgument);
  } else if (const FileUrl* file = std::get_if<FileUrl>(&url.value())) {
    FUZZ_CHECK(file->directory.size() > 1 && file->directory[0] == '/' && file->directory.size() <= 3000);
    FUZZ_CHECK(file->directory.find('\0') == std::string::npos);
  } else if (const TcpUrl* tcp = std::get_if<TcpUrl>(&url.value())) {
    FUZZ_CHECK(tcp->port != 0 && !tcp->host.empty() && !tcp->job.empty() && tcp->job.size() <= 100);
  } else if (const MemoryUrl* memory = std::get_if<MemoryUrl>(&url.value())) {
    FUZZ_CHECK(!memory->name.empty() && memory->name.size() <= 100);
  }
  return 0;
}
