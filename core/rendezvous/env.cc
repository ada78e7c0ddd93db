// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/env.h"

#include <charconv>
#include <optional>

#include "rendezvous/url.h"

namespace hvd::rendezvous {
namespace {

constexpr char kRank[] = "HOROVOD_RANK";
constexpr char kSize[] = "HOROVOD_SIZE";
constexpr char kRendezvous[] = "HOROVOD_RENDEZVOUS";
constexpr char kHostname[] = "HOROVOD_HOSTNAME";

}  // namespace

std::string quoted(const std::string& text) {
  std::string shown;
  for (const char c : text.substr(0, 40)) shown += c >= ' ' && c <= '~' ? c : '?';
  return "\"" + shown + (text.size() > 40 ? "...\"" : "\"");
}

Result<int> read_number(const char* variable, const std::string& text, int lowest, int highest) {
  int number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc{} && end == last && number >= lowest && number <= highest) return number;
  return Status(Code::kInvalidArgument, std::string(variable) + ": value " + quoted(text) +
                                            " is not allowed; allowed: integers from " +
                                            std::to_string(lowest) + " to " +
                                            std::to_string(highest));
}

Result<Place> place_from_environment(const Environment& environment) {
  const auto text = [&](const char* variable) { return environment(variable).value_or(""); };
  const std::string rank_text = text(kRank), size_text = text(kSize);
  Place place;
  place.url = text(kRendezvous);
  place.host = text(kHostname);

  std::string present, missing;
  for (const auto& [variable, value] :
       {std::pair(kRank, &rank_text), {kSize, &size_text}, {kRendezvous, &place.url}}) {
    (value->empty() ? missing : present) += std::string(" ") + variable;
  }
  if (present.empty()) return place;
  if (!missing.empty()) {
    // TonY and others start ranks for Gloo's server, which this library has no use for.
    const bool of_gloo = place.url.empty() && !text("HOROVOD_GLOO_RENDEZVOUS_ADDR").empty();
    const char* const remedy =
        of_gloo ? "; HOROVOD_GLOO_RENDEZVOUS_ADDR is not used here: set HOROVOD_RENDEZVOUS to "
                  "file:///folder-of-all-hosts, or to "
                  "tcp://host-of-rank-0:port/job together with HOROVOD_SECRET_FILE"
                : "";
    return Status(Code::kInvalidArgument,
                  "environment: missing" + missing + ", although set:" + present + remedy);
  }
  const Result<int> size = read_number(kSize, size_text, 1, kLargestSize);
  if (!size.ok()) return size.status();
  const Result<int> rank = read_number(kRank, rank_text, 0, size.value() - 1);
  if (!rank.ok()) {
    return Status(Code::kInvalidArgument,
                  rank.status().message() + " because HOROVOD_SIZE is " + size_text);
  }
  const Result<Url> url = parse_url(place.url);
  if (!url.ok())
    return Status(Code::kInvalidArgument, std::string(kRendezvous) + ": " + url.status().message());
  if (std::holds_alternative<EnvUrl>(url.value())) {
    return Status(Code::kInvalidArgument,
                  std::string(kRendezvous) + ": \"env:\" leads back to the environment");
  }
  place.rank = rank.value();
  place.size = size.value();
  place.launcher = "horovodrun";
  place.way = Way::kUrl;
  return place;
}

}  // namespace hvd::rendezvous
