# SPDX-License-Identifier: Apache-2.0
"""The environment of a rank: its place in the job, where the ranks meet, and what flags of horovodrun ask for."""

import os
import re
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

from .flag_table import FLAGS
from .hosts import Place

# Says that the master, as programs find it that know torchrun, is from horovodrun.
_MASTER_IS_OURS = "HVD_LAUNCHER_MASTER"
# What an outer job may have left in our environment, or what would show the secret.
OF_ANOTHER_JOB = tuple("HOROVOD_" + name for name in (
    "RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOSTNAME RENDEZVOUS SECRET SECRET_FD SECRET_FILE SSH_ARGS "
    "RUN_FOLDER PARTS_FILE FAULT_FILE FLIGHT_FILE STACK_FILE INIT_PID MEMBERSHIP WORKER ELASTIC").split()) + ("_HOROVOD_SECRET_KEY", _MASTER_IS_OURS)
# What programs read that know torchrun's names; of an outer job if that was horovodrun's.
_COMMON = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_MASTER = ("MASTER_ADDR", "MASTER_PORT")
# They make programs believe that torchrun has started them.
_OF_TORCHRUN = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS")
PARTS = "parts"  # where ranks can meet without rank 0; a file, because it grows with the job
_STAYS_HERE = re.compile(r"BASH_FUNC_|OLDPWD$|PWD$|.*CUDA_VISIBLE_DEVICES$|SSH_|HOSTNAME$|DISPLAY$|XAUTHORITY$|"
                         r"XDG_RUNTIME_DIR$|XDG_SESSION|DBUS_|_$|SHLVL$")


def of_flags(args) -> Dict[str, str]:
    """Variables for the flags that were given; a flag that was not given leaves the user's environment alone."""
    variables = {}
    for flag in FLAGS:
        value = getattr(args, flag.attribute)
        if flag.variable is not None and value is not None:
            variables[flag.variable] = flag.setting(value)
    if args.controller in ("gloo", "mpi"):
        variables["HOROVOD_CONTROLLER"] = variables["HOROVOD_CPU_OPERATIONS"] = args.controller
    if args.metrics_token_out is not None:
        variables["HOROVOD_METRICS_JOB_TOKEN"] = "1"
    if args.tcp:
        variables["NCCL_IB_DISABLE"] = "1"
    return variables


def of_another_job(own: Mapping[str, str]) -> Tuple[str, ...]:
    """The variables of this environment that a job around this one has left."""
    if "HOROVOD_RANK" in own or _MASTER_IS_OURS in own:
        return OF_ANOTHER_JOB + _COMMON + _MASTER
    return OF_ANOTHER_JOB + ((_COMMON + _MASTER + _OF_TORCHRUN) if "TORCHELASTIC_RUN_ID" in own else ())


def of_master(own: Mapping[str, str], address: str, port: int) -> Dict[str, str]:
    """Where programs meet that read MASTER_ADDR and MASTER_PORT, unless the user has said where."""
    if not set(_MASTER) - set(own) and not set(_MASTER) & set(of_another_job(own)):
        return {_MASTER_IS_OURS: "given"}
    return {"MASTER_ADDR": address, "MASTER_PORT": str(port), _MASTER_IS_OURS: f"{address}:{port}"}


def threads_per_rank(ranks: int, cores: Optional[int] = None) -> int:
    """Cores that each of a host's ranks may use, at least 1; without a number of cores those of this machine."""
    return max(1, (cores or len(os.sched_getaffinity(0))) // ranks)


def _own_library() -> Dict[str, str]:
    """Where ranks in Java, Scala and Julia find libhvd if they find none themselves: in this package."""
    package = Path(__file__).resolve().parent.parent.parent
    for place in (package, package.parent / ".horovod.mesonpy.libs"):
        if (place / "libhvd.so.1").exists():
            return {"HVD_LAUNCHER_LIBRARY": str(place / "libhvd.so.1")}
    return {}


def of_job(interfaces: Optional[List[str]]) -> Dict[str, str]:
    """Variables that are the same for every rank."""
    variables = {"PYTHONUNBUFFERED": "1", **_own_library()}
    if interfaces:
        variables["HOROVOD_NETWORK_INTERFACES"] = variables["NCCL_SOCKET_IFNAME"] = ",".join(interfaces)
    return variables


def of_agent(task, agent, ranks: int, rendezvous: Optional[str]) -> Dict[str, str]:
    """Variables that are the same for the at most so many ranks of one host, beside the user's own."""
    folder = agent.facts["folder"] if agent.is_remote else task.folder
    variables = dict(task.variables)
    if task.interfaces and agent.facts:
        # Names differ between hosts, and the engine takes a name that its host does not have for a mistake.
        own = [name for name in task.interfaces if name in agent.facts["interfaces"]]
        variables["HOROVOD_NETWORK_INTERFACES"] = ",".join(own)
    variables["HOROVOD_SECRET_FILE"] = os.path.join(folder, "secret")
    if rendezvous is not None:
        variables["HOROVOD_RENDEZVOUS"] = rendezvous
        variables["HOROVOD_PARTS_FILE"] = os.path.join(folder, PARTS)
    if task.run_folder:
        variables["HOROVOD_RUN_FOLDER"] = folder if agent.is_remote else task.run_folder
    if "OMP_NUM_THREADS" not in os.environ:
        # Every rank would start a thread per core otherwise, and the ranks would fight for the cores.
        cores = agent.facts["cores"] if agent.is_remote else None
        variables["OMP_NUM_THREADS"] = str(threads_per_rank(ranks, cores))
    return variables


def forwarded(own: Mapping[str, str]) -> Dict[str, str]:
    """What of this environment goes to ranks on other hosts: all but what belongs to this machine or job."""
    without = of_another_job(own)
    return {name: value for name, value in own.items() if not _STAYS_HERE.match(name) and name not in without}


def of_rank(place: Place) -> Dict[str, str]:
    """Variables that tell one rank its place: our own names, and those of torchrun."""
    return {
        **dict(zip(_COMMON, map(str, (place.rank, place.size, place.local_rank, place.local_size)))),
        "HOROVOD_RANK": str(place.rank),
        "HOROVOD_SIZE": str(place.size),
        "HOROVOD_LOCAL_RANK": str(place.local_rank),
        "HOROVOD_LOCAL_SIZE": str(place.local_size),
        "HOROVOD_CROSS_RANK": str(place.cross_rank),
        "HOROVOD_CROSS_SIZE": str(place.cross_size),
        "HOROVOD_HOSTNAME": place.host,
    }


def of_worker(place: Place) -> Dict[str, str]:
    """The same for a process of an elastic job, whose rank is told when it joins. Its place on its host stays."""
    return {
        "HOROVOD_ELASTIC": "1",
        "HOROVOD_WORKER": str(place.rank),
        "HOROVOD_HOSTNAME": place.host,
        "LOCAL_RANK": str(place.local_rank),
        "HOROVOD_LOCAL_RANK": str(place.local_rank),
    }
