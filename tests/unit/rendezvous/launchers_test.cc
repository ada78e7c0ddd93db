// SPDX-License-Identifier: Apache-2.0
// What launchers set was captured from the programs themselves, for the rows whose name has a
// version. The others follow the manuals.
#include "rendezvous/launchers.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace hvd::rendezvous {
namespace {

using Variables = std::map<std::string, std::string>;

Variables variables_in(const std::string& text) {
  Variables variables;
  std::istringstream in(text);
  for (std::string word; in >> word;)
    variables[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return variables;
}

Result<Place> place_in(const std::string& text) {
  return find_place(
      [variables = variables_in(text)](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      });
}

// "1 of 2, local 0 of 1, Open MPI 5.0.11, pmix"
std::string summary(const std::string& environment) {
  const Result<Place> found = place_in(environment);
  if (!found.ok())
    return found.status().code() == Code::kInvalidArgument ? found.status().message()
                                                           : "another code";
  const Place& place = found.value();
  std::ostringstream out;
  out << place.rank << " of " << place.size;
  if (place.local_rank >= 0 || place.local_size > 0)
    out << ", local " << place.local_rank << " of " << place.local_size;
  if (!place.launcher.empty()) out << ", " << place.launcher;
  switch (place.way) {
    case Way::kAlone: out << ", alone"; break;
    case Way::kUrl: out << ", " << place.url; break;
    case Way::kHost: out << ", host"; break;
    case Way::kAddress:
      out << ", " << place.address << ":" << place.first_port << "+" << place.ports;
      break;
    case Way::kMpi: out << ", mpi"; break;
    case Way::kPmix: out << ", pmix"; break;
    case Way::kPmi: out << ", pmi"; break;
    case Way::kUnknown: out << ", unknown"; break;
  }
  return out.str();
}

const std::string kTorchrun =
    "GROUP_RANK=0 GROUP_WORLD_SIZE=1 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost "
    "MASTER_PORT=38377 "
    "OMP_NUM_THREADS=1 RANK=1 ROLE_NAME=default ROLE_RANK=1 ROLE_WORLD_SIZE=2 "
    "TORCHELASTIC_MAX_RESTARTS=0 "
    "TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_RUN_ID=6a94aa77-71f5-44b5-a097-00c8920128df "
    "TORCHELASTIC_USE_AGENT_STORE=True WORLD_SIZE=2 ";
const std::string kTorchrunTwoHosts =
    "GROUP_RANK=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=29400 RANK=2 "
    "TORCHELASTIC_RESTART_COUNT=3 "
    "TORCHELASTIC_RUN_ID=job7 WORLD_SIZE=4 ";
const std::string kOpenMpi4 =
    "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 "
    "OMPI_COMM_WORLD_RANK=1 "
    "OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_ess_base_jobid=958332929 OMPI_MCA_ess_base_vpid=1 "
    "OMPI_UNIVERSE_SIZE=2 "
    "PMIX_ID=958332929.1 PMIX_NAMESPACE=958332929 PMIX_RANK=1 "
    "PMIX_SERVER_URI41=958332928.0;tcp4://127.0.0.1:58451 "
    "PMIX_VERSION=4.2.2rc2 ";
const std::string kOpenMpi5 =
    "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 "
    "OMPI_COMM_WORLD_RANK=1 "
    "OMPI_COMM_WORLD_SIZE=2 OMPI_UNIVERSE_SIZE=2 OMPI_VERSION=5.0.11 "
    "PMIX_NAMESPACE=prterun-vm-21995@1 PMIX_RANK=1 "
    "PMIX_SERVER_URI41=prterun-vm-21995@0.0;tcp4://127.0.0.1:54001 PMIX_VERSION=5.0.11rc1 "
    "PRTE_LAUNCHED=1 ";
const std::string kOpenMpiTwoHosts =
    "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK=2 "
    "OMPI_COMM_WORLD_SIZE=4 "
    "PMIX_NAMESPACE=7 PMIX_RANK=2 ";
const std::string kMpich =
    "MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 PMI_FD=8 PMI_RANK=1 PMI_SIZE=2 HYDI_CONTROL_FD=7 ";
const std::string kSlurmJob =
    "SLURM_CLUSTER_NAME=one SLURM_JOBID=4 SLURM_JOB_ID=4 SLURM_JOB_NODELIST=n[1-2] SLURM_NNODES=2 "
    "SLURM_NODELIST=n[1-2] "
    "SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2) ";
const std::string kSlurmBatch =
    kSlurmJob + "SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_GTIDS=0 ENVIRONMENT=BATCH ";
const std::string kSlurmStep =
    "SLURM_GTIDS=0,1 SLURM_JOBID=1 SLURM_JOB_ID=1 SLURM_LOCALID=1 SLURM_NNODES=1 SLURM_NODEID=0 "
    "SLURM_NPROCS=2 SLURM_NTASKS=2 "
    "SLURM_PROCID=1 SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=vm SLURM_STEP_NUM_NODES=1 "
    "SLURM_STEP_NUM_TASKS=2 "
    "SLURM_STEP_TASKS_PER_NODE=2 SLURM_TASKS_PER_NODE=2 ";
const std::string kSlurmTwoNodes =
    "SLURM_JOB_ID=9 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_PROCID=2 SLURM_STEP_ID=4 "
    "SLURM_STEP_NODELIST=n[07-08] "
    "SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=2,1 SLURM_NTASKS=64 ";
const std::string kPod =
    "JOB_COMPLETION_INDEX=2 HOROVOD_SIZE=4 HOSTNAME=train-2 KUBERNETES_SERVICE_HOST=10.96.0.1 ";
const std::string kPlain = "RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 ";

struct Row {
  const char* name;
  std::string environment;
  std::string expected;
};

const std::string kBadPort = ": value \"0\" is not allowed; allowed: integers from 1 to 65519";

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) EXPECT_EQ(summary(row.environment), row.expected) << row.name;
}

TEST(Launchers, EachOnItsOwn) {
  check({
      {"nothing", "", "0 of 1, alone"},
      {"ordinary variables", "HOME=/root LOCAL_RANK=3 OMP_NUM_THREADS=2", "0 of 1, alone"},
      {"horovodrun",
       "HOROVOD_RANK=1 HOROVOD_SIZE=2 HOROVOD_RENDEZVOUS=file:///a HOROVOD_LOCAL_RANK=1",
       "1 of 2, horovodrun, file:///a"},
      {"torchrun 2.15", kTorchrun, "1 of 2, local 1 of 2, torchrun, host"},
      {"torchrun, two hosts", kTorchrunTwoHosts, "2 of 4, local 0 of 2, torchrun, h0:29401+16"},
      {"torchrun, two agents on one host", kTorchrunTwoHosts + "MASTER_ADDR=127.0.0.1",
       "2 of 4, local 0 of 2, torchrun, host"},
      {"torchrun, one process", kTorchrun + "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1",
       "0 of 1, local 0 of 1, torchrun, alone"},
      {"jsrun",
       "JSM_NAMESPACE_RANK=5 JSM_NAMESPACE_SIZE=12 JSM_NAMESPACE_LOCAL_RANK=1 "
       "JSM_NAMESPACE_LOCAL_SIZE=4 PMIX_NAMESPACE=1",
       "5 of 12, local 1 of 4, jsrun, pmix"},
      {"Open MPI 4.1", kOpenMpi4, "1 of 2, local 1 of 2, Open MPI, host"},
      {"Open MPI 5.0.11", kOpenMpi5, "1 of 2, local 1 of 2, Open MPI 5.0.11, host"},
      {"Open MPI, two hosts", kOpenMpiTwoHosts, "2 of 4, local 0 of 2, Open MPI, mpi"},
      {"Open MPI without PMIx, two hosts",
       kOpenMpiTwoHosts + "PMIX_NAMESPACE=", "2 of 4, local 0 of 2, Open MPI, mpi"},
      {"MVAPICH",
       "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 "
       "MV2_COMM_WORLD_LOCAL_SIZE=2 PMI_FD=5",
       "1 of 4, local 1 of 2, MVAPICH, pmi"},
      {"Flux",
       "FLUX_TASK_RANK=3 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_ID=f2 PMI_FD=9 PMI_RANK=3 "
       "PMI_SIZE=4",
       "3 of 4, local 1 of 0, Flux, pmi"},
      {"PALS, one host",
       "PALS_RANKID=1 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 PALS_APID=a-b PMI_RANK=1 PMI_SIZE=2",
       "1 of 2, local 1 of 2, PALS, host"},
      {"PALS, two hosts",
       "PALS_RANKID=1 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 PALS_APID=a-b PMI_RANK=1 PMI_SIZE=4",
       "1 of 4, local 1 of 2, PALS, unknown"},
      {"MPICH 4.0", kMpich, "1 of 2, local 1 of 2, mpiexec (PMI), pmi"},
      {"mpiexec without a descriptor", "PMI_RANK=1 PMI_SIZE=2 PMI_PORT=h:5 PMI_ID=1",
       "1 of 2, mpiexec (PMI), unknown"},
      {"mpiexec, one process", "PMI_RANK=0 PMI_SIZE=1 PMI_FD=8", "0 of 1, mpiexec (PMI), alone"},
      {"srun 22.05", kSlurmStep, "1 of 2, local 1 of 2, Slurm, host"},
      {"srun 22.05 --mpi=pmix",
       kSlurmStep + "PMIX_NAMESPACE=slurm.pmix.1.0 PMIX_RANK=1 SLURM_MPI_TYPE=pmix",
       "1 of 2, local 1 of 2, Slurm, host"},
      {"srun 22.05 --mpi=pmi2", kSlurmStep + "PMI_FD=13 PMI_JOBID=1.0 PMI_RANK=1 PMI_SIZE=2",
       "1 of 2, local 1 of 2, Slurm, host"},
      {"srun, two nodes", kSlurmTwoNodes, "2 of 3, local 0 of 1, Slurm, n07:25707+16"},
      {"srun --mpi=pmix, two nodes", kSlurmTwoNodes + "PMIX_NAMESPACE=slurm.pmix.9.4",
       "2 of 3, local 0 of 1, Slurm, pmix"},
      {"srun --mpi=pmi2, two nodes",
       kSlurmTwoNodes + "PMI_FD=13 PMI_JOBID=9.4 PMI_RANK=2 PMI_SIZE=3",
       "2 of 3, local 0 of 1, Slurm, pmi"},
      {"srun without a list of nodes",
       kSlurmTwoNodes + "SLURM_STEP_NODELIST=", "2 of 3, local 0 of 1, Slurm, unknown"},
      {"srun, one task",
       kSlurmStep +
           "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1",
       "0 of 1, local 0 of 1, Slurm, alone"},
      {"Kubernetes indexed job", kPod + "MASTER_ADDR=train-0.train",
       "2 of 4, Kubernetes, train-0.train:29501+16"},
      {"Kubernetes with a port", kPod + "MASTER_ADDR=train-0.train MASTER_PORT=7000",
       "2 of 4, Kubernetes, train-0.train:7001+16"},
      {"Kubernetes with a URL", kPod + "HOROVOD_RENDEZVOUS=tcp://train-0.train:7000/train",
       "2 of 4, Kubernetes, tcp://train-0.train:7000/train"},
      {"plain variables", kPlain, "1 of 2, RANK and WORLD_SIZE, 10.0.0.1:29501+16"},
      {"plain variables on one host", kPlain + "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
       "1 of 2, local 1 of 2, RANK and WORLD_SIZE, host"},
      {"plain variables, loopback", kPlain + "MASTER_ADDR=localhost",
       "1 of 2, RANK and WORLD_SIZE, host"},
      {"plain variables, IPv6 loopback", kPlain + "MASTER_ADDR=::1",
       "1 of 2, RANK and WORLD_SIZE, host"},
      {"plain variables, one process", kPlain + "RANK=0 WORLD_SIZE=1",
       "0 of 1, RANK and WORLD_SIZE, alone"},
  });
}

TEST(Launchers, ShellsOfAnAllocationAreJobsOfOne) {
  check({
      {"salloc", kSlurmJob, "0 of 1, alone"},
      {"sbatch", kSlurmBatch, "0 of 1, alone"},
      {"interactive step", kSlurmBatch + "SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=4",
       "0 of 1, alone"},
      {"batch step", kSlurmBatch + "SLURM_STEP_ID=4294967291 SLURM_STEP_NUM_TASKS=4",
       "0 of 1, alone"},
      {"Jupyter in an allocation", kSlurmJob + "JPY_SESSION_NAME=a.ipynb", "0 of 1, alone"},
      {"a pod of independent work", "JOB_COMPLETION_INDEX=2 KUBERNETES_SERVICE_HOST=10.96.0.1",
       "0 of 1, alone"},
      {"only where others would meet", "MASTER_ADDR=10.0.0.1 MASTER_PORT=29500", "0 of 1, alone"},
  });
  EXPECT_EQ(
      place_in(kSlurmJob).value().note,
      "Slurm job \"4\" has 4 tasks and this is no step of it: a job of one rank; srun starts all");
  EXPECT_EQ(place_in("JOB_COMPLETION_INDEX=2").value().note,
            "JOB_COMPLETION_INDEX is set and HOROVOD_SIZE is not: a job of one rank");
  EXPECT_EQ(place_in("").value().note, "");
  EXPECT_EQ(place_in(kSlurmJob + "SLURM_NTASKS=1").value().note, "");
}

TEST(Launchers, TheInnermostWins) {
  check({
      {"horovodrun in srun",
       kSlurmStep + "HOROVOD_RANK=0 HOROVOD_SIZE=4 HOROVOD_RENDEZVOUS=file:///a",
       "0 of 4, horovodrun, file:///a"},
      {"horovodrun in a pod", kPod + "HOROVOD_RANK=0 HOROVOD_RENDEZVOUS=file:///a",
       "0 of 4, horovodrun, file:///a"},
      {"torchrun in srun", kSlurmTwoNodes + kTorchrunTwoHosts,
       "2 of 4, local 0 of 2, torchrun, h0:29401+16"},
      {"torchrun in mpirun", kOpenMpi4 + kTorchrunTwoHosts,
       "2 of 4, local 0 of 2, torchrun, h0:29401+16"},
      {"torchrun in a pod", kPod + kTorchrun, "1 of 2, local 1 of 2, torchrun, host"},
      {"mpirun in sbatch", kSlurmBatch + kOpenMpi5, "1 of 2, local 1 of 2, Open MPI 5.0.11, host"},
      {"mpirun in srun", kSlurmStep + kOpenMpiTwoHosts, "2 of 4, local 0 of 2, Open MPI, mpi"},
      {"mpirun in a pod", kPod + kOpenMpi4, "1 of 2, local 1 of 2, Open MPI, host"},
      {"mpiexec in sbatch", kSlurmBatch + kMpich, "1 of 2, local 1 of 2, mpiexec (PMI), pmi"},
      {"mpiexec in srun", kSlurmStep + "SLURM_PROCID=0 SLURM_LOCALID=0 " + kMpich,
       "1 of 2, local 1 of 2, mpiexec (PMI), pmi"},
      {"srun, and the same as plain variables",
       kSlurmTwoNodes + "RANK=2 WORLD_SIZE=3 MASTER_ADDR=n07 MASTER_PORT=29500",
       "2 of 3, local 0 of 1, Slurm, n07:25707+16"},
      {"srun, and half of the plain variables",
       kSlurmTwoNodes + "WORLD_SIZE=64 MASTER_ADDR=n07 MASTER_PORT=29500",
       "2 of 3, local 0 of 1, Slurm, n07:25707+16"},
      {"srun, and a URL", kSlurmTwoNodes + "HOROVOD_RENDEZVOUS=file:///a",
       "2 of 3, local 0 of 0, Slurm, file:///a"},
      {"mpirun, and a URL", kOpenMpi4 + "HOROVOD_RENDEZVOUS=tcp://h0:70/j",
       "1 of 2, local 1 of 2, Open MPI, tcp://h0:70/j"},
      {"plain variables of horovodrun without its own",
       "RANK=1 WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=5 HVD_LAUNCHER_MASTER=h0:5",
       "0 of 1, alone"},
      {"mpirun in a rank of horovodrun",
       kOpenMpi4 + "RANK=3 WORLD_SIZE=4 MASTER_ADDR=h0 MASTER_PORT=5 HVD_LAUNCHER_MASTER=given",
       "1 of 2, local 1 of 2, Open MPI, host"},
      {"plain, and a URL instead of an address", "RANK=1 WORLD_SIZE=2 HOROVOD_RENDEZVOUS=file:///a",
       "1 of 2, RANK and WORLD_SIZE, file:///a"},
  });
}

TEST(Launchers, IncompleteSetsAreErrorsThatShowWhatIsThere) {
  check({
      {"horovodrun", "HOROVOD_RANK=1",
       "environment: missing HOROVOD_SIZE HOROVOD_RENDEZVOUS, although set: HOROVOD_RANK"},
      {"a URL alone", "HOROVOD_RENDEZVOUS=file:///a",
       "environment: missing HOROVOD_RANK HOROVOD_SIZE, although set: HOROVOD_RENDEZVOUS"},
      {"HOROVOD_SIZE beside mpirun", kOpenMpi4 + "HOROVOD_SIZE=2",
       "environment: missing HOROVOD_RANK HOROVOD_RENDEZVOUS, although set: HOROVOD_SIZE"},
      {"torchrun", "TORCHELASTIC_RUN_ID=a RANK=1 WORLD_SIZE=2 MASTER_PORT=5",
       "environment: the variables of torchrun are incomplete: missing MASTER_ADDR; found: "
       "torchrun: RANK=\"1\" "
       "WORLD_SIZE=\"2\" "
       "MASTER_PORT=\"5\"; RANK and WORLD_SIZE: RANK=\"1\" WORLD_SIZE=\"2\" MASTER_PORT=\"5\""},
      {"Open MPI in Slurm", kSlurmStep + "OMPI_COMM_WORLD_RANK=3",
       "environment: the variables of Open MPI are incomplete: missing OMPI_COMM_WORLD_SIZE; "
       "found: Open MPI: "
       "OMPI_COMM_WORLD_RANK=\"3\"; Slurm: SLURM_PROCID=\"1\" SLURM_STEP_NUM_TASKS=\"2\" "
       "SLURM_JOB_ID=\"1\" "
       "SLURM_LOCALID=\"1\""},
      {"Open MPI without a rank", "OMPI_COMM_WORLD_SIZE=2",
       "environment: the variables of Open MPI are incomplete: missing OMPI_COMM_WORLD_RANK; "
       "found: Open MPI: "
       "OMPI_COMM_WORLD_SIZE=\"2\""},
      {"mpiexec", "PMI_RANK=0",
       "environment: the variables of mpiexec (PMI) are incomplete: missing PMI_SIZE; found: "
       "mpiexec (PMI): PMI_RANK=\"0\""},
      {"Slurm", "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=1",
       "environment: the variables of Slurm are incomplete: missing SLURM_PROCID; found: Slurm: "
       "SLURM_STEP_NUM_TASKS=\"2\" "
       "SLURM_JOB_ID=\"1\""},
      {"a pod", kPod,
       "environment: the variables of Kubernetes are incomplete: missing MASTER_ADDR; found: "
       "Kubernetes: "
       "JOB_COMPLETION_INDEX=\"2\" HOROVOD_SIZE=\"4\""},
      {"plain", "RANK=0 WORLD_SIZE=2",
       "environment: the variables of RANK and WORLD_SIZE are incomplete: missing MASTER_ADDR "
       "MASTER_PORT; found: RANK and "
       "WORLD_SIZE: RANK=\"0\" WORLD_SIZE=\"2\""},
      {"plain, rank alone", "RANK=0",
       "environment: the variables of RANK and WORLD_SIZE are incomplete: missing WORLD_SIZE "
       "MASTER_ADDR MASTER_PORT; found: "
       "RANK and WORLD_SIZE: RANK=\"0\""},
  });
}

TEST(Launchers, WhatDoesNotFitTogetherIsAnError) {
  check({
      {"plain against Slurm",
       "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=1 SLURM_PROCID=1 RANK=0 WORLD_SIZE=2 "
       "MASTER_ADDR=a MASTER_PORT=1",
       "environment: Slurm and RANK, WORLD_SIZE contradict each other; found: Slurm: "
       "SLURM_PROCID=\"1\" "
       "SLURM_STEP_NUM_TASKS=\"2\" SLURM_JOB_ID=\"1\"; RANK and WORLD_SIZE: RANK=\"0\" "
       "WORLD_SIZE=\"2\" MASTER_ADDR=\"a\" "
       "MASTER_PORT=\"1\""},
      {"plain against Open MPI",
       "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=1 RANK=0 WORLD_SIZE=4",
       "environment: Open MPI and RANK, WORLD_SIZE contradict each other; found: Open MPI: "
       "OMPI_COMM_WORLD_RANK=\"0\" "
       "OMPI_COMM_WORLD_SIZE=\"2\"; RANK and WORLD_SIZE: RANK=\"0\" WORLD_SIZE=\"4\""},
      {"rank beyond size", "PMI_RANK=2 PMI_SIZE=2",
       "environment: PMI_RANK: value \"2\" is not allowed; allowed: integers from 0 to 1 because "
       "PMI_SIZE is 2; found: "
       "mpiexec (PMI): PMI_RANK=\"2\" PMI_SIZE=\"2\""},
      {"no number", "PMI_RANK=one PMI_SIZE=2",
       "environment: PMI_RANK: value \"one\" is not allowed; allowed: integers from 0 to 1 because "
       "PMI_SIZE is 2; found: "
       "mpiexec (PMI): PMI_RANK=\"one\" PMI_SIZE=\"2\""},
      {"size 0", "PMI_RANK=0 PMI_SIZE=0",
       "environment: PMI_SIZE: value \"0\" is not allowed; allowed: integers from 1 to 1048576; "
       "found: mpiexec (PMI): "
       "PMI_RANK=\"0\" PMI_SIZE=\"0\""},
      {"local size beyond size", "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=3",
       "environment: MPI_LOCALNRANKS: value \"3\" is not allowed; allowed: integers from 1 to 2; "
       "found: mpiexec (PMI): "
       "PMI_RANK=\"0\" PMI_SIZE=\"2\" MPI_LOCALNRANKS=\"3\""},
      {"local rank beyond local size", "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=1",
       "environment: MPI_LOCALRANKID: value \"1\" is not allowed; allowed: integers from 0 to 0; "
       "found: mpiexec (PMI): "
       "PMI_RANK=\"0\" PMI_SIZE=\"2\" MPI_LOCALRANKID=\"1\" MPI_LOCALNRANKS=\"1\""},
      {"port", "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=0",
       "environment: MASTER_PORT" + kBadPort +
           "; found: RANK and WORLD_SIZE: RANK=\"0\" WORLD_SIZE=\"2\" MASTER_ADDR=\"a\" "
           "MASTER_PORT=\"0\""},
      {"tasks per node",
       "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=1 SLURM_PROCID=1 "
       "SLURM_STEP_TASKS_PER_NODE=x "
       "SLURM_NODEID=0",
       "environment: SLURM_STEP_TASKS_PER_NODE: Slurm list \"x\": does not say how many tasks node "
       "0 has; allowed: lists like "
       "\"2(x3),1\"; found: Slurm: SLURM_PROCID=\"1\" SLURM_STEP_NUM_TASKS=\"2\" "
       "SLURM_JOB_ID=\"1\""},
      {"more tasks on a node than in the step",
       "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=1 SLURM_PROCID=1 "
       "SLURM_STEP_TASKS_PER_NODE=3 SLURM_NODEID=0",
       "environment: SLURM_STEP_TASKS_PER_NODE: 3 tasks on node 0 of a step of 2; found: Slurm: "
       "SLURM_PROCID=\"1\" "
       "SLURM_STEP_NUM_TASKS=\"2\" SLURM_JOB_ID=\"1\""},
      {"list of nodes",
       "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=1 SLURM_PROCID=1 "
       "SLURM_STEP_NODELIST=n[1",
       "environment: SLURM_STEP_NODELIST: Slurm list \"n[1\": is not a list of at most 65536 hosts "
       "like "
       "\"node[01-03,7],login\"; "
       "found: Slurm: SLURM_PROCID=\"1\" SLURM_STEP_NUM_TASKS=\"2\" SLURM_JOB_ID=\"1\""},
      {"a URL that is none", kOpenMpi4 + "HOROVOD_RENDEZVOUS=env:",
       "HOROVOD_RENDEZVOUS: \"env:\" leads back to the environment"},
  });
}

TEST(Launchers, AJobHasANameThatNoOtherStartOfItHas) {
  const auto job = [](const std::string& environment) { return place_in(environment).value().job; };
  EXPECT_EQ(job(kSlurmTwoNodes), "9.4");
  EXPECT_EQ(job(kPlain), "29500");
  EXPECT_EQ(job(kPod + "MASTER_ADDR=train-0.train"), "train-0.train");
  EXPECT_EQ(job(kOpenMpi4), "958332929");
  EXPECT_EQ(job(kMpich), "");
  const std::string torchrun = job(kTorchrunTwoHosts);
  EXPECT_EQ(torchrun, "job7-29400-3");
  EXPECT_NE(torchrun, job(kTorchrunTwoHosts + "TORCHELASTIC_RESTART_COUNT=4"));
  EXPECT_NE(torchrun, job(kTorchrunTwoHosts + "MASTER_PORT=29401"));
  EXPECT_NE(torchrun, job(kTorchrunTwoHosts + "TORCHELASTIC_RUN_ID=job8"));
  EXPECT_EQ(torchrun, job(kTorchrunTwoHosts + "RANK=0 LOCAL_RANK=0 GROUP_RANK=0"));
  EXPECT_NE(job(kSlurmTwoNodes), job(kSlurmTwoNodes + "SLURM_RESTART_COUNT=1"));
  EXPECT_LE(job(kTorchrunTwoHosts + "TORCHELASTIC_RUN_ID=" + std::string(500, 'x')).size(), 100U);
  EXPECT_EQ(job(kOpenMpi5 + "PMIX_NAMESPACE=a/b").find('/'), std::string::npos);
}

}  // namespace
}  // namespace hvd::rendezvous
