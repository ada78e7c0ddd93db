// SPDX-License-Identifier: Apache-2.0
// Any environment gives options and a place within their limits or one clear error. The input is
// lines NAME=value.
#include <map>

#include "base/options.h"
#include "rendezvous/launchers.h"
#include "rendezvous/url.h"
#include "target.h"

using namespace hvd;

namespace {

void check_options(const Environment& environment) {
  Options options;
  const Status status = options.load(environment);
  if (!status.ok()) fuzz::check_error(status, Code::kInvalidArgument);
  // Whatever was accepted can be read and set again without a change.
  for (size_t index = 0; index < option_count(); ++index) {
    const std::string value = options.get(option_name(index)).value();
    FUZZ_CHECK(options.set(option_name(index), value).ok());
    FUZZ_CHECK(options.get(option_name(index)).value() == value);
  }
  FUZZ_CHECK(options.eager_bytes >= -1 && options.eager_bytes <= 8192);
  FUZZ_CHECK(options.cycle_time >= 0 && options.start_timeout > 0);
}

void check_place(const Result<rendezvous::Place>& found) {
  if (!found.ok()) return fuzz::check_error(found.status(), Code::kInvalidArgument);
  const rendezvous::Place& place = found.value();
  FUZZ_CHECK(place.rank >= 0 && place.rank < place.size && place.size <= rendezvous::kLargestSize);
  FUZZ_CHECK(place.local_size >= 0 && place.local_size <= place.size &&
             place.local_rank < place.size);
  FUZZ_CHECK(place.local_size == 0 || place.local_rank < place.local_size);
  FUZZ_CHECK(place.size == 1 || place.way != rendezvous::Way::kAlone);
  // What becomes part of a URL must be able to.
  FUZZ_CHECK(place.job.empty() || rendezvous::parse_url("mem://" + place.job).ok());
  if (place.way == rendezvous::Way::kUrl) FUZZ_CHECK(rendezvous::parse_url(place.url).ok());
  if (place.way == rendezvous::Way::kHost) FUZZ_CHECK(!place.job.empty());
  if (place.way == rendezvous::Way::kAddress)
    FUZZ_CHECK(place.first_port > 0 && place.first_port + place.ports <= 65536);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::map<std::string, std::string, std::less<>> variables;
  for (std::string_view left = fuzz::text(data, size); !left.empty();) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    variables.insert_or_assign(std::string(line.substr(0, equals)),
                               std::string(line.substr(equals + 1)));
    Options options;
    const Status status = options.set(line.substr(0, equals), line.substr(equals + 1));
    if (!status.ok()) fuzz::check_error(status, status.code());
  }
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  check_options(environment);
  check_place(rendezvous::find_place(environment));
  return 0;
}
