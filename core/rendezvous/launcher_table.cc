// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/launcher_table.h"

#include <initializer_list>
#include <vector>

#include "base/hash.h"
#include "rendezvous/slurm_nodelist.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {
namespace {

constexpr int kPorts = 16;
constexpr uint16_t kKubernetesPort = 29500;
constexpr size_t kMostHosts = 1 << 16;

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
bool plain_is_here(const Variables& variables) {
  return (variables.has("RANK") || variables.has("WORLD_SIZE")) &&
         !horovodrun_has_set_plain(variables);
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

constexpr LauncherRow kRows[] = {
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

}  // namespace

bool kubernetes_is_here(const Variables& variables) {
  return variables.has("JOB_COMPLETION_INDEX") && variables.has("HOROVOD_SIZE");
}

bool horovodrun_has_set_plain(const Variables& variables) {
  return variables.has("HVD_LAUNCHER_MASTER");
}

std::span<const LauncherRow> launcher_rows() { return kRows; }

}  // namespace hvd::rendezvous
