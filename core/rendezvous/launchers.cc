// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/launchers.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "rendezvous/slurm_nodelist.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {
namespace {

constexpr int kPorts = 16;
constexpr uint16_t kKubernetesPort = 29500;
constexpr size_t kMostHosts = 1 << 16;
constexpr size_t kLongestTable = 800;     // an error has 1008 bytes
constexpr size_t kLongestPlainName = 40;  // leaves room for what makes it unique and for the user

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}
  std::string operator[](const char* name) const {
    return name == nullptr ? "" : environment_(name).value_or("");
  }
  bool has(const char* name) const { return !(*this)[name].empty(); }

 private:
  const Environment& environment_;
};

// ---- Functions that the rows of the table need beyond names of variables.

// A Slurm step, not the shell of an allocation, whose id is 0xfffffffa or higher.
bool in_slurm_step(const Variables& variables) {
  const Result<int> step = read_number("SLURM_STEP_ID", variables["SLURM_STEP_ID"], 0, 0x7fffffff);
  return step.ok();
}

std::string slurm_step(const Variables& variables) {
  return variables["SLURM_JOB_ID"] + "." + variables["SLURM_STEP_ID"];
}

bool torchrun_is_here(const Variables& variables) { return variables.has("TORCHELASTIC_RUN_ID"); }
bool jsrun_is_here(const Variables& variables) { return variables.has("JSM_NAMESPACE_RANK"); }
bool open_mpi_is_here(const Variables& variables) {
  return variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE");
}
bool mvapich_is_here(const Variables& variables) { return variables.has("MV2_COMM_WORLD_RANK"); }
bool flux_is_here(const Variables& variables) { return variables.has("FLUX_TASK_RANK"); }
bool pals_is_here(const Variables& variables) { return variables.has("PALS_RANKID"); }
// Slurm's own PMI says for which step it is.
bool pmi_is_here(const Variables& variables) {
  const bool slurms = in_slurm_step(variables) && variables["PMI_JOBID"] == slurm_step(variables);
  return (variables.has("PMI_RANK") || variables.has("PMI_SIZE")) && !slurms;
}
bool slurm_is_here(const Variables& variables) { return in_slurm_step(variables); }
bool kubernetes_is_here(const Variables& variables) {
  return variables.has("JOB_COMPLETION_INDEX") && variables.has("HOROVOD_SIZE");
}
// horovodrun tells its ranks torchrun's names too. In a process to which its own names were not
// passed on, torchrun's names are no place. The variable that says so does not begin with HOROVOD_,
// because programs that start a process of another job remove everything that does.
bool horovodrun_has_set_plain(const Variables& variables) {
  return variables.has("HVD_LAUNCHER_MASTER");
}
bool plain_is_here(const Variables& variables) {
  return (variables.has("RANK") || variables.has("WORLD_SIZE")) &&
         !horovodrun_has_set_plain(variables);
}

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

std::string joined(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : "-") + part;
  }
  return text;
}

bool is_this_host(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

Status meet_at_master(const Variables& variables, Place& place) {
  place.address = variables["MASTER_ADDR"];
  const std::string port = variables["MASTER_PORT"];
  const Result<int> number = port.empty() ? Result<int>(int{kKubernetesPort})
                                          : read_number("MASTER_PORT", port, 1, 65535 - kPorts);
  if (!number.ok()) return number.status();
  // MASTER_PORT itself is where PyTorch's own store listens.
  place.first_port = static_cast<uint16_t>(number.value() + 1);
  place.ports = kPorts;
  place.way = is_this_host(place.address) ? Way::kHost : Way::kAddress;
  place.job =
      joined({variables["TORCHELASTIC_RUN_ID"], port, variables["TORCHELASTIC_RESTART_COUNT"]});
  if (place.job.empty()) place.job = place.address;
  return {};
}

Status meet_by_pmix(const Variables& variables, Place& place) {
  place.job = variables["PMIX_NAMESPACE"];
  place.way = variables.has("PMIX_NAMESPACE") ? Way::kPmix : Way::kUnknown;
  if (place.job.empty()) place.job = variables["OMPI_MCA_ess_base_jobid"];
  return {};
}

Status meet_by_mpi(const Variables& variables, Place& place) {
  HVD_TRY(meet_by_pmix(variables, place));
  place.way = Way::kMpi;
  return {};
}

// Hydra names its jobs only in the protocol.
Status meet_by_pmi(const Variables& variables, Place& place) {
  place.job = variables["PMI_JOBID"] + variables["FLUX_JOB_ID"] + variables["PALS_APID"];
  place.way = variables.has("PMI_FD") ? Way::kPmi : Way::kUnknown;
  return {};
}

Status meet_in_slurm(const Variables& variables, Place& place) {
  const std::string tasks = variables["SLURM_STEP_TASKS_PER_NODE"],
                    node = variables["SLURM_NODEID"];
  if (!tasks.empty() && !node.empty()) {
    const Result<int> number = read_number("SLURM_NODEID", node, 0, kLargestSize);
    if (!number.ok()) return number.status();
    const Result<int> here = tasks_on_node(tasks, number.value());
    if (!here.ok())
      return {Code::kInvalidArgument, "SLURM_STEP_TASKS_PER_NODE: " + here.status().message()};
    if (here.value() < 1 || here.value() > place.size) {
      return {Code::kInvalidArgument, "SLURM_STEP_TASKS_PER_NODE: " + std::to_string(here.value()) +
                                          " tasks on node " + node + " of a step of " +
                                          std::to_string(place.size)};
    }
    place.local_size = here.value();
  }
  place.job = joined({slurm_step(variables), variables["SLURM_RESTART_COUNT"]});
  if (variables.has("PMIX_NAMESPACE")) {
    place.way = Way::kPmix;
  } else if (variables.has("PMI_FD")) {
    place.way = Way::kPmi;
  } else if (variables.has("SLURM_STEP_NODELIST")) {
    const Result<std::vector<std::string>> hosts =
        expand_nodelist(variables["SLURM_STEP_NODELIST"], kMostHosts);
    if (!hosts.ok())
      return {Code::kInvalidArgument, "SLURM_STEP_NODELIST: " + hosts.status().message()};
    place.way = Way::kAddress;
    place.address = hosts.value().front();
    // Below the ports that systems give out by themselves.
    place.first_port =
        static_cast<uint16_t>(20000 + fingerprint(std::as_bytes(std::span(place.job))).low % 10000);
    place.ports = kPorts;
  } else {
    place.way = Way::kUnknown;
  }
  return {};
}

// ---- The table.

struct Row {
  const char* launcher;
  bool (*is_here)(const Variables&);
  const char* rank;
  const char* size;
  const char* local_rank;  // nullptr: not known
  const char* local_size;
  std::array<const char*, 2> needed;  // besides rank and size
  const char* version;
  Status (*meet)(const Variables&, Place&);
};

// Innermost first: a launcher can be started by the launchers below it, hardly by those above.
constexpr Row kRows[] = {
    {"torchrun",
     torchrun_is_here,
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT"},
     nullptr,
     meet_at_master},
    {"jsrun",
     jsrun_is_here,
     "JSM_NAMESPACE_RANK",
     "JSM_NAMESPACE_SIZE",
     "JSM_NAMESPACE_LOCAL_RANK",
     "JSM_NAMESPACE_LOCAL_SIZE",
     {},
     nullptr,
     meet_by_pmix},
    {"Open MPI",
     open_mpi_is_here,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {},
     "OMPI_VERSION",
     meet_by_mpi},
    {"MVAPICH",
     mvapich_is_here,
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     {},
     nullptr,
     meet_by_pmi},
    {"Flux",
     flux_is_here,
     "FLUX_TASK_RANK",
     "FLUX_JOB_SIZE",
     "FLUX_TASK_LOCAL_ID",
     nullptr,
     {},
     nullptr,
     meet_by_pmi},
    {"PALS",
     pals_is_here,
     "PALS_RANKID",
     "PMI_SIZE",
     "PALS_LOCAL_RANKID",
     "PALS_LOCAL_SIZE",
     {},
     nullptr,
     meet_by_pmi},
    {"mpiexec (PMI)",
     pmi_is_here,
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {},
     nullptr,
     meet_by_pmi},
    {"Slurm",
     slurm_is_here,
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     nullptr,
     {"SLURM_JOB_ID"},
     nullptr,
     meet_in_slurm},
    {"Kubernetes",
     kubernetes_is_here,
     "JOB_COMPLETION_INDEX",
     "HOROVOD_SIZE",
     nullptr,
     nullptr,
     {"MASTER_ADDR"},
     nullptr,
     meet_at_master},
    {"RANK and WORLD_SIZE",
     plain_is_here,
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT"},
     nullptr,
     meet_at_master},
};
constexpr const Row& kPlain = kRows[std::size(kRows) - 1];

std::vector<const char*> needed_by(const Row& row) {
  std::vector<const char*> names = {row.rank, row.size};
  for (const char* name : row.needed) {
    if (name != nullptr) names.push_back(name);
  }
  return names;
}

// "Slurm: SLURM_PROCID="1" SLURM_STEP_NUM_TASKS="2"" of every launcher that has left something.
std::string table_of(const Variables& variables) {
  std::string table;
  for (const Row& row : kRows) {
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

Status read_local(const Row& row, const Variables& variables, Place& place) {
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

Result<Place> read_row(const Row& row, const Variables& variables, bool ways_are_needed) {
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
Status check_plain(const Row& row, const Place& place, const Variables& variables) {
  if (std::string_view(row.rank) == kPlain.rank || !variables.has(kPlain.rank) ||
      !variables.has(kPlain.size))
    return {};
  if (horovodrun_has_set_plain(variables)) return {};
  if (variables[kPlain.rank] == std::to_string(place.rank) &&
      variables[kPlain.size] == std::to_string(place.size))
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
  for (const Row& row : kRows) {
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
