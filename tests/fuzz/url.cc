// SPDX-License-Identifier: Apache-2.0
// Any text given as a rendezvous URL is either refused with one printable line or understood within
// the limits.
#include "rendezvous/url.h"

#include "target.h"

using namespace hvd;
using namespace hvd::rendezvous;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<Url> url = parse_url(fuzz::text(data, size));
  if (!url.ok()) {
    fuzz::check_error(url.status(), Code::kInvalidArgument);
  } else if (const FileUrl* file = std::get_if<FileUrl>(&url.value())) {
    FUZZ_CHECK(file->directory.size() > 1 && file->directory[0] == '/' &&
               file->directory.size() <= 3000);
    FUZZ_CHECK(file->directory.find('\0') == std::string::npos);
  } else if (const TcpUrl* tcp = std::get_if<TcpUrl>(&url.value())) {
    FUZZ_CHECK(!tcp->candidates.empty() && tcp->candidates.size() <= kMostCandidates);
    FUZZ_CHECK(!tcp->job.empty() && tcp->job.size() <= 100);
    for (const Candidate& candidate : tcp->candidates) {
      FUZZ_CHECK(candidate.port != 0 && !candidate.host.empty() && candidate.host.size() <= 255);
    }
    // What is written is what is read.
    const Result<Url> again = parse_url(tcp->text());
    FUZZ_CHECK(again.ok() && std::get<TcpUrl>(again.value()).text() == tcp->text());
  } else if (const UnixUrl* local = std::get_if<UnixUrl>(&url.value())) {
    FUZZ_CHECK(!local->name.empty() && local->name.size() <= 80);
  } else if (const MemoryUrl* memory = std::get_if<MemoryUrl>(&url.value())) {
    FUZZ_CHECK(!memory->name.empty() && memory->name.size() <= 100);
  }
  if (url.ok()) FUZZ_CHECK(!job_of(url.value()).empty() && job_of(url.value()).size() <= 100);
  return 0;
}
