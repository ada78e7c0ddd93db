// SPDX-License-Identifier: Apache-2.0
// Any text is a list of at most so many hosts, or one clear error; what one host's name is expands
// to itself.
#include "rendezvous/slurm_nodelist.h"

#include <algorithm>

#include "target.h"

using namespace hvd;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMost = 1000;
  const std::string_view text = fuzz::text(data, size);
  const Result<std::vector<std::string>> hosts = rendezvous::expand_nodelist(text, kMost);
  if (!hosts.ok()) {
    fuzz::check_error(hosts.status(), Code::kInvalidArgument);
  } else {
    FUZZ_CHECK(!hosts.value().empty() && hosts.value().size() <= kMost);
    for (const std::string& host : hosts.value()) {
      FUZZ_CHECK(!host.empty() && host.find_first_of("[], ") == std::string::npos);
      FUZZ_CHECK(rendezvous::expand_nodelist(host, 1).value().front() == host);
    }
  }
  for (const int node : {0, 1, 1000}) {
    const Result<int> tasks = rendezvous::tasks_on_node(text, node);
    if (!tasks.ok()) fuzz::check_error(tasks.status(), Code::kInvalidArgument);
    FUZZ_CHECK(!tasks.ok() || tasks.value() >= 0);
  }
  return 0;
}
