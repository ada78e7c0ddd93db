# SPDX-License-Identifier: Apache-2.0
"""Flags and variables of Horovod that this version knows and cannot serve: one clear line for each that is used."""

import os
from typing import List, Optional

from horovod.common import environment_names

_ELASTIC = (
    ("min_num_proc", "--min-np"), ("max_num_proc", "--max-np"), ("host_discovery_script", "--host-discovery-script"),
    ("slots_per_host", "--slots-per-host"), ("elastic_timeout", "--elastic-timeout"), ("reset_limit", "--reset-limit"),
    ("blacklist_cooldown_range", "--blacklist-cooldown-range"),
)
# Besides these: --autotune and --timeline-filename, which say what is missed.
_IDLE = tuple((name, f"--{name.replace('_', '-')}") for name in (
    "autotune_log_file", "autotune_warmup_samples", "autotune_steps_per_sample", "autotune_bayes_opt_max_samples",
    "autotune_gaussian_process_noise", "timeline_mark_cycles", "thread_affinity"))


def refusal(args) -> Optional[str]:
    """Why this call cannot be served at all, or None."""
    for name, flag in _ELASTIC:
        if getattr(args, name) is not None:
            return f"{flag}: elastic jobs are not in this version; without it the number of ranks is fixed"
    if args.controller == "jsrun":
        return "--jsrun: LSF's jsrun is not in this version; use --mpi, or no such flag"
    return None


def notices(args) -> List[str]:
    """What of this call has no effect."""
    lines = []
    if args.autotune:
        lines.append("--autotune: this version does not tune itself; the job runs with its fixed settings")
    if args.timeline_filename is not None:
        lines.append(f"--timeline-filename: this version writes no timeline; {args.timeline_filename} is not made")
    for name, flag in _IDLE:
        value = getattr(args, name)
        if value is not None and value is not False:  # 0 is a value, and --no-... asks for nothing
            lines.append(f"{flag}: has no effect in this version")
    if args.controller != "mpi":
        for name, flag in (("mpi_args", "--mpi-args"), ("binding_args", "--binding-args")):
            if getattr(args, name) is not None:
                lines.append(f"{flag}: has no effect without --mpi")
    if any("," in text for text in args.network_interface or ()):
        lines.append("--network-interface: takes one name; for several use --network-interfaces")
    return lines + environment_names.notices(os.environ)
