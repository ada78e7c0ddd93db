// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/launchers.h"

#include <cinttypes>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "rendezvous/launcher_table.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {
namespace {

constexpr size_t kLongestTable = 800;     // an error has 1008 bytes
constexpr size_t kLongestPlainName = 40;  // leaves room for what makes it unique and for the user

// A name for a URL, the same for the same text and hardly ever for another one.
std::string name_of(const std::string& text) {
  std::string name;
  for (const char c : text.substr(0, kLongestPlainName)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-';
    name += plain ? c : '_';
  }
  if (name == text) return name;
  char digits[18];
  std::snprintf(digits, sizeof digits, ".%016" PRIx64,
                fingerprint(std::as_bytes(std::span(text))).high);
  return name + digits;
}

std::vector<const char*> needed_by(const LauncherRow& row) {
  std::vector<const char*> names = {row.rank, row.size};
  for (const char* name : row.needed) {
    if (name != nullptr) names.push_back(name);
  }
  return names;
}

// "Slurm: SLURM_PROCID="1" SLURM_STEP_NUM_TASKS="2"" of every launcher that has left something.
std::string table_of(const Variables& variables) {
  std::string table;
  for (const LauncherRow& row : launcher_rows()) {
    if (!row.is_here(variables)) continue;
    table += (table.empty() ? "" : "; ") + std::string(row.launcher) + ":";
    std::vector<const char*> names = needed_by(row);
    names.insert(names.end(), {row.local_rank, row.local_size});
    for (const char* name : names) {
      if (variables.has(name)) table += " " + std::string(name) + "=" + quoted(variables[name]);
    }
  }
  return table.size() <= kLongestTable ? table : table.substr(0, kLongestTable) + "...";
}

Status does_not_fit(const Variables& variables, const std::string& what) {
  return {Code::kInvalidArgument, "environment: " + what + "; found: " + table_of(variables)};
}

Status read_local(const LauncherRow& row, const Variables& variables, Place& place) {
  if (variables.has(row.local_size)) {
    const Result<int> size = read_number(row.local_size, variables[row.local_size], 1, place.size);
    if (!size.ok()) return does_not_fit(variables, size.status().message());
    place.local_size = size.value();
  }
  if (variables.has(row.local_rank)) {
    const int limit = place.local_size > 0 ? place.local_size : place.size;
    const Result<int> rank = read_number(row.local_rank, variables[row.local_rank], 0, limit - 1);
    if (!rank.ok()) return does_not_fit(variables, rank.status().message());
    place.local_rank = rank.value();
  }
  return {};
}

Result<Place> read_row(const LauncherRow& row, const Variables& variables, bool ways_are_needed) {
  std::string missing;
  for (const char* name : {row.rank, row.size}) {
    if (!variables.has(name)) missing += std::string(" ") + name;
  }
  for (const char* name : row.needed) {
    if (ways_are_needed && name != nullptr && !variables.has(name))
      missing += std::string(" ") + name;
  }
  if (!missing.empty()) {
    return does_not_fit(variables, "the variables of " + std::string(row.launcher) +
                                       " are incomplete: missing" + missing);
  }
  Place place;
  const Result<int> size = read_number(row.size, variables[row.size], 1, kLargestSize);
  if (!size.ok()) return does_not_fit(variables, size.status().message());
  place.size = size.value();
  const Result<int> rank = read_number(row.rank, variables[row.rank], 0, place.size - 1);
  if (!rank.ok()) {
    return does_not_fit(variables, rank.status().message() + " because " + row.size + " is " +
                                       std::to_string(place.size));
  }
  place.rank = rank.value();
  const Status met = ways_are_needed ? row.meet(variables, place) : Status();
  if (!met.ok()) return does_not_fit(variables, met.message());
  HVD_TRY(read_local(row, variables, place));
  place.launcher = row.launcher;
  if (variables.has(row.version)) place.launcher += " " + name_of(variables[row.version]);
  // A launcher that does not name its jobs has to tell them apart when it brings the ranks
  // together.
  if (place.local_size == place.size && !place.job.empty()) place.way = Way::kHost;
  if (!place.job.empty()) place.job = name_of(place.job);
  if (place.size == 1) place.way = Way::kAlone;
  return place;
}

// Several programs set RANK and WORLD_SIZE from what a launcher says. If they say something else,
// one of the two is left over from elsewhere, or there is a launcher between that is not known
// here.
Status check_plain(const LauncherRow& row, const Place& place, const Variables& variables) {
  const LauncherRow& plain = launcher_rows().back();
  if (std::string_view(row.rank) == plain.rank || !variables.has(plain.rank) ||
      !variables.has(plain.size))
    return {};
  if (horovodrun_has_set_plain(variables)) return {};
  if (variables[plain.rank] == std::to_string(place.rank) &&
      variables[plain.size] == std::to_string(place.size))
    return {};
  return does_not_fit(variables,
                      std::string(row.launcher) + " and RANK, WORLD_SIZE contradict each other");
}

std::string note_on(const Variables& variables) {
  const Result<int> tasks = read_number("SLURM_NTASKS", variables["SLURM_NTASKS"], 2, kLargestSize);
  if (variables.has("SLURM_JOB_ID") && tasks.ok()) {
    return "Slurm job " + quoted(variables["SLURM_JOB_ID"]) + " has " +
           std::to_string(tasks.value()) +
           " tasks and this is no step of it: a job of one rank; srun starts all";
  }
  if (variables.has("JOB_COMPLETION_INDEX")) {
    return "JOB_COMPLETION_INDEX is set and HOROVOD_SIZE is not: a job of one rank";
  }
  return "";
}

Result<Place> use_url(Place place, const std::string& url) {
  const Result<Url> parsed = parse_url(url);
  if (!parsed.ok())
    return Status(Code::kInvalidArgument, "HOROVOD_RENDEZVOUS: " + parsed.status().message());
  if (std::holds_alternative<EnvUrl>(parsed.value())) {
    return Status(Code::kInvalidArgument,
                  "HOROVOD_RENDEZVOUS: \"env:\" leads back to the environment");
  }
  place.url = url;
  place.way = Way::kUrl;
  return place;
}

}  // namespace

Result<Place> find_place(const Environment& environment) {
  const Variables variables(environment);
  const std::string url = variables["HOROVOD_RENDEZVOUS"];
  const bool size_is_kubernetes = kubernetes_is_here(variables);
  if (variables.has("HOROVOD_RANK") || (variables.has("HOROVOD_SIZE") && !size_is_kubernetes)) {
    return place_from_environment(environment);
  }
  for (const LauncherRow& row : launcher_rows()) {
    if (!row.is_here(variables)) continue;
    Result<Place> place = read_row(row, variables, url.empty());
    if (!place.ok()) return place;
    HVD_TRY(check_plain(row, place.value(), variables));
    place.value().host = variables["HOROVOD_HOSTNAME"];
    return url.empty() ? place : use_url(std::move(place).value(), url);
  }
  Result<Place> place = place_from_environment(environment);
  if (place.ok()) place.value().note = note_on(variables);
  return place;
}

}  // namespace hvd::rendezvous
