# SPDX-License-Identifier: Apache-2.0
"""Starting jobs: the program horovodrun and the function run()."""

from typing import Any, Callable, Iterable, List, Optional, Union

__all__ = ["run"]


def run(func: Callable, args: tuple = (), kwargs: Optional[dict] = None, num_proc: Optional[int] = None,
        min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None, slots: Optional[int] = None,
        reset_limit: Optional[int] = None, cooldown_range: Optional[tuple] = None, hosts: Optional[str] = None,
        hostfile: Optional[str] = None, host_discovery_script: Optional[str] = None, start_timeout: Optional[int] = None,
        ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None, disable_cache: Optional[bool] = None,
        output_filename: Optional[str] = None, verbose: Optional[bool] = None, use_gloo: Optional[bool] = None,
        use_mpi: Optional[bool] = None, mpi_args: Optional[str] = None,
        network_interface: Union[str, Iterable[str], None] = None,
        network_interfaces: Union[str, Iterable[str], None] = None, executable: Optional[str] = None,
        np: Optional[int] = None, min_np: Optional[int] = None, max_np: Optional[int] = None) -> List[Any]:
    """Runs `func(*args, **kwargs)` as every rank of a new job; returns the results by rank.

    `num_proc` (older name: `np`) is the number of ranks, default 1 or all slots of `hosts` ("server1:4,server2:4") or of
    `hostfile`. The function and its results travel by cloudpickle (HOROVOD_SAFE_OBJECTS=1: the name of the function and
    plain values) through files that only this user can read, and through ssh to other hosts (under `use_mpi` too), which
    need the same Python at the same place but no shared file system. `executable` is the Python program to use. The other
    arguments are flags of horovodrun of the same name: `start_timeout`, `ssh_port`, `ssh_identity_file`, `disable_cache`,
    `output_filename`, `verbose`, `use_gloo`, `mpi_args`, `network_interfaces` (older name: `network_interface`).
    The ranks' output appears as horovodrun prints it. If a rank raises or dies, the others are stopped and RuntimeError names
    the rank that failed first, with its traceback.

    `min_num_proc` (older name: `min_np`) or `host_discovery_script` makes the job elastic: `func` uses `hvd.elastic`, ranks that
    die are replaced, and the results are those of the ranks there are at the end, which may be more or fewer than `num_proc`.
    `max_num_proc` (`max_np`), `slots`, `reset_limit` and `cooldown_range` (shortest, longest) are flags of horovodrun, too.

    Example::

        def rank_squared(power):
            import horovod as hvd

            hvd.init()
            return hvd.rank() ** power

        horovod.run(rank_squared, args=(2,), num_proc=2)  # [0, 1]
    """
    from .function.run_function import Job, run_function
    from .plan.hosts import parse_hosts, read_hostfile

    num_proc = num_proc if num_proc is not None else np
    min_num_proc = min_num_proc if min_num_proc is not None else min_np
    max_num_proc = max_num_proc if max_num_proc is not None else max_np
    elastic = min_num_proc is not None or host_discovery_script is not None
    of_elastic = {"max_num_proc": max_num_proc, "slots": slots, "reset_limit": reset_limit, "cooldown_range": cooldown_range}
    for name, value in of_elastic.items():
        if value is not None and not elastic:
            raise ValueError(f"{name}: of elastic jobs; min_num_proc or host_discovery_script makes a job one")
    if elastic and use_mpi:
        raise ValueError("use_mpi: mpirun cannot replace ranks; an elastic job is started without it")
    if host_discovery_script is not None and (hosts is not None or hostfile is not None):
        raise ValueError("hosts, hostfile and host_discovery_script: only one of them can say where ranks run")
    if hosts is not None and hostfile is not None:
        raise ValueError("hosts and hostfile: only one of them can say where ranks run")
    if use_gloo and use_mpi:
        raise ValueError("use_gloo and use_mpi: only one of them can start the ranks")
    flags = []
    for flag, value in (("--start-timeout", start_timeout), ("--ssh-port", ssh_port),
                        ("--ssh-identity-file", ssh_identity_file),
                        ("--output-filename", output_filename), ("--network-interfaces", _names(network_interface)),
                        ("--network-interfaces", _names(network_interfaces)), ("--min-np", min_num_proc),
                        ("--max-np", max_num_proc), ("--slots-per-host", slots), ("--reset-limit", reset_limit),
                        ("--host-discovery-script", host_discovery_script)):
        if value is not None:
            flags += [flag, str(value)]
    if cooldown_range is not None:
        flags += ["--blacklist-cooldown-range", *map(str, cooldown_range)]
    if mpi_args is not None:
        flags.append(f"--mpi-args={mpi_args}")
    for flag, given in (("--disable-cache", disable_cache), ("--verbose", verbose), ("--gloo", use_gloo),
                        ("--mpi", use_mpi)):
        if given:
            flags.append(flag)
    listed = None
    if host_discovery_script is None:
        here = max_num_proc or num_proc or min_num_proc or 1
        listed = read_hostfile(hostfile) if hostfile else parse_hosts(hosts or f"localhost:{here}")
    return run_function(func, args, kwargs or {}, Job(num_proc, listed, flags, bool(use_mpi), elastic), executable)


def _names(interfaces: Union[str, Iterable[str], None]) -> Optional[str]:
    return interfaces if interfaces is None or isinstance(interfaces, str) else ",".join(interfaces)
