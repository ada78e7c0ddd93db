# SPDX-License-Identifier: Apache-2.0
"""Flags and variables of Horovod that this version knows and cannot serve: one clear line for each that is used."""

import os
from typing import List, Optional

from horovod.common import environment_names

from ..plan.flag_table import FLAGS, IDLE

_OF_ELASTIC = (
    ("max_num_proc", "--max-np"), ("reset_limit", "--reset-limit"), ("blacklist_cooldown_range", "--blacklist-cooldown-range"),
)


def refusal(args) -> Optional[str]:
    """Why this call cannot be served at all, or None."""
    elastic = args.min_num_proc is not None or args.host_discovery_script is not None
    if args.slots_per_host is not None and args.host_discovery_script is None:
        return "--slots-per-host: slots of a host that the script of --host-discovery-script lists without a number"
    if elastic and args.controller == "mpi":
        return "--mpi: mpirun cannot replace ranks; without --mpi, horovodrun starts the ranks of an elastic job"
    if not elastic:
        for name, flag in _OF_ELASTIC:
            if getattr(args, name) is not None:
                return f"{flag}: of elastic jobs, whose ranks may come and go; --min-np or --host-discovery-script makes a job one"
    if args.metrics_token_out is not None and args.controller == "mpi":
        return "--metrics-token-out: mpirun starts the ranks without a secret of horovodrun; set HOROVOD_METRICS_TOKEN_FILE instead"
    if args.metrics_port is not None or os.environ.get("HOROVOD_METRICS_PORT"):
        problem = _problem_of_metrics(args)
        if problem:
            return problem
    if args.controller == "jsrun":
        return "--jsrun: LSF's jsrun is not in this version; use --mpi, or no such flag"
    return None


def _problem_of_metrics(args) -> Optional[str]:
    """What every rank would say, once."""
    from horovod._metrics import settings

    address = args.metrics_address or os.environ.get(settings.ADDRESS)
    has_token = args.metrics_token_out is not None or bool(os.environ.get(settings.TOKEN_FILE))
    try:
        if address:
            settings.check_address(address, has_token)
    except ValueError as error:
        return str(error)
    return None


def notices(args) -> List[str]:
    """What of this call has no effect."""
    lines = []
    for flag in FLAGS:
        value = getattr(args, flag.attribute)
        if flag.group == IDLE and value is not None and value is not False:  # 0 is a value, and --no-... asks for nothing
            lines.append(f"--{flag.name}: {flag.idle.format(value) or 'has no effect in this version'}")
    if args.controller != "mpi":
        for name, flag in (("mpi_args", "--mpi-args"), ("binding_args", "--binding-args")):
            if getattr(args, name) is not None:
                lines.append(f"{flag}: has no effect without --mpi")
    if any("," in text for text in args.network_interface or ()):
        lines.append("--network-interface: takes one name; for several use --network-interfaces")
    if args.metrics_port is None and not os.environ.get("HOROVOD_METRICS_PORT"):
        for name, flag in (("metrics_address", "--metrics-address"), ("metrics_token_out", "--metrics-token-out")):
            if getattr(args, name) is not None:
                lines.append(f"{flag}: has no effect without --metrics-port")
    return lines + environment_names.notices(os.environ)
