# SPDX-License-Identifier: Apache-2.0
"""What hvd.init() would find in an environment, and how its connections would be protected. Never tells a secret.

The engine decides by core/rendezvous/launcher_table.cc; the table here has the same rows (a test compares them), so that
`horovodrun doctor` can tell without the library. Only names of variables, ranks and sizes are told, never other values.
"""

import os
import stat
from typing import Dict, List, Mapping, NamedTuple, Optional

from ..plan.environment import OF_ANOTHER_JOB


class Launcher(NamedTuple):
    """A way to start ranks: any variable of `signs` says that it is at work, then all of `needed` must be there."""

    name: str
    signs: tuple
    rank: str
    size: str
    needed: tuple = ()


# Innermost first, as the engine looks for them.
LAUNCHERS = (
    Launcher("torchrun", ("TORCHELASTIC_RUN_ID",), "RANK", "WORLD_SIZE", ("MASTER_ADDR", "MASTER_PORT")),
    Launcher("jsrun", ("JSM_NAMESPACE_RANK",), "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    Launcher(
        "Open MPI", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"
    ),
    Launcher("MVAPICH", ("MV2_COMM_WORLD_RANK",), "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    Launcher("Flux", ("FLUX_TASK_RANK",), "FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    Launcher("PALS", ("PALS_RANKID",), "PALS_RANKID", "PMI_SIZE"),
    Launcher("mpiexec (PMI)", ("PMI_RANK", "PMI_SIZE"), "PMI_RANK", "PMI_SIZE"),
    Launcher("Slurm", ("SLURM_STEP_ID",), "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_JOB_ID",)),
    Launcher("Kubernetes", ("JOB_COMPLETION_INDEX",), "JOB_COMPLETION_INDEX", "HOROVOD_SIZE", ("MASTER_ADDR",)),
    Launcher("RANK and WORLD_SIZE", ("RANK", "WORLD_SIZE"), "RANK", "WORLD_SIZE", ("MASTER_ADDR", "MASTER_PORT")),
)
_OWN = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_RENDEZVOUS")
_LEVELS = ("auth", "encrypt", "none")


def launch(variables: Mapping[str, str]) -> dict:
    """{"launcher": name or None, "rank", "size", "missing": [variables that should be there], "variables": [seen]}."""
    has = {name for name, value in variables.items() if value}
    if "HOROVOD_RANK" in has or ("HOROVOD_SIZE" in has and "JOB_COMPLETION_INDEX" not in has):
        return _found("horovodrun", variables, "HOROVOD_RANK", "HOROVOD_SIZE", _OWN)
    for row in LAUNCHERS:
        if has & set(row.signs) and _is_at_work(row.name, variables):
            needed = () if "HOROVOD_RENDEZVOUS" in has else row.needed
            return _found(row.name, variables, row.rank, row.size, (row.rank, row.size, *needed))
    missing = [name for name in _OWN if name not in has] if "HOROVOD_RENDEZVOUS" in has else []
    return {"launcher": None, "rank": 0, "size": 1, "missing": missing, "variables": sorted(has & set(_OWN))}


def _is_at_work(name: str, variables: Mapping[str, str]) -> bool:
    step = variables.get("SLURM_STEP_ID", "")
    in_step = step.isdigit() and int(step) <= 0x7FFFFFFF  # the shell of an allocation has larger numbers
    if name == "Slurm":
        return in_step
    if name == "mpiexec (PMI)":  # Slurm's own PMI says for which step it is
        return not (in_step and variables.get("PMI_JOBID") == f"{variables.get('SLURM_JOB_ID', '')}.{step}")
    return name != "Kubernetes" or bool(variables.get("HOROVOD_SIZE"))


def _found(name: str, variables: Mapping[str, str], rank: str, size: str, needed: tuple) -> dict:
    def number(variable: str) -> Optional[int]:
        text = variables.get(variable, "")
        return int(text) if text.isdigit() else None

    return {
        "launcher": name,
        "rank": number(rank),
        "size": number(size),
        "missing": [variable for variable in needed if not variables.get(variable)],
        "variables": sorted({variable for variable in needed if variables.get(variable)}),
    }


def protection(variables: Mapping[str, str]) -> dict:
    """The level that jobs started from here get, and where their secret comes from; the secret itself is not read."""
    level = variables.get("HOROVOD_SECURITY") or "auth"
    return {
        "level": level,
        "level_known": level in _LEVELS,
        "from_environment": bool(variables.get("HOROVOD_SECURITY")),
        "cpu_operations": variables.get("HOROVOD_CPU_OPERATIONS") or "native",
        "secret_file": variables.get("HOROVOD_SECRET_FILE") or None,
        "secret_file_problem": _file_problem(variables.get("HOROVOD_SECRET_FILE")),
        "secret_in_environment": [name for name in ("HOROVOD_SECRET", "_HOROVOD_SECRET_KEY") if variables.get(name)],
    }


def _file_problem(path: Optional[str]) -> Optional[str]:
    if not path:
        return None
    try:
        status = os.stat(path)
    except OSError as error:
        return error.strerror.lower()
    if not stat.S_ISREG(status.st_mode):
        return "is no file"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}"
    return f"others may read it (mode {stat.S_IMODE(status.st_mode):04o})" if status.st_mode & 0o077 else None


def job_variables(variables: Mapping[str, str]) -> List[str]:
    """Names of variables that change how a job works, without those that a launcher replaces."""
    return sorted(
        name for name in variables if name.startswith(("HOROVOD_", "HVD_", "NCCL_")) and name not in OF_ANOTHER_JOB
    )


def summary(variables: Mapping[str, str]) -> Dict[str, object]:
    """Everything of this module, for the report."""
    return {"launch": launch(variables), "protection": protection(variables), "variables": job_variables(variables)}
