# SPDX-License-Identifier: Apache-2.0
"""The environment of a rank: its place in the job, where the ranks meet, and what flags of horovodrun ask for."""

import os
from typing import Dict, List

from .hosts import Place

# Flag of horovodrun (as argparse names it) and the variable that the engine reads for it.
_VALUE_FLAGS = (
    ("cycle_time_ms", "HOROVOD_CYCLE_TIME"),
    ("cache_capacity", "HOROVOD_CACHE_CAPACITY"),
    ("stall_check_warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS"),
    ("stall_check_shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"),
    ("log_level", "HOROVOD_LOG_LEVEL"),
    ("start_timeout", "HOROVOD_START_TIMEOUT"),
)
_TRUTH_FLAGS = (
    ("hierarchical_allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE"),
    ("no_stall_check", "HOROVOD_STALL_CHECK_DISABLE"),
    ("log_without_timestamp", "HOROVOD_LOG_HIDE_TIME"),
)


def of_flags(args) -> Dict[str, str]:
    """Variables for the flags that were given; a flag that was not given leaves the user's environment alone."""
    variables = {}
    if args.fusion_threshold_mb is not None:
        variables["HOROVOD_FUSION_THRESHOLD"] = str(args.fusion_threshold_mb * 1048576)
    for flag, variable in _VALUE_FLAGS:
        value = getattr(args, flag)
        if value is not None:
            variables[variable] = str(value)
    for flag, variable in _TRUTH_FLAGS:
        value = getattr(args, flag)
        if value is not None:
            variables[variable] = "1" if value else "0"
    return variables


def threads_per_rank(ranks: int) -> int:
    """Cores of this machine that each of its ranks may use, at least 1."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return max(1, cores // ranks)


def of_job(places: List[Place], rendezvous: str) -> Dict[str, str]:
    """Variables that are the same for every rank."""
    variables = {"HOROVOD_RENDEZVOUS": rendezvous, "PYTHONUNBUFFERED": "1"}
    if "OMP_NUM_THREADS" not in os.environ:
        # Every rank would start a thread per core otherwise, and the ranks would fight for the cores.
        variables["OMP_NUM_THREADS"] = str(threads_per_rank(len(places)))
    return variables


def of_rank(place: Place) -> Dict[str, str]:
    """Variables that tell one rank its place."""
    return {
        "HOROVOD_RANK": str(place.rank),
        "HOROVOD_SIZE": str(place.size),
        "HOROVOD_LOCAL_RANK": str(place.local_rank),
        "HOROVOD_LOCAL_SIZE": str(place.local_size),
        "HOROVOD_CROSS_RANK": str(place.cross_rank),
        "HOROVOD_CROSS_SIZE": str(place.cross_size),
        "HOROVOD_HOSTNAME": place.host,
    }
