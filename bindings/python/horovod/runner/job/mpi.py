# SPDX-License-Identifier: Apache-2.0
"""horovodrun --mpi: the same job started by mpirun. Only names of variables are among its arguments, never values."""

import os
import re
import shlex
import signal
import subprocess
from typing import Dict, List, NoReturn, Optional, Sequence, Tuple

from ..agents.remote import SshOptions
from ..on_host import processes
from ..plan import environment
from ..plan.hosts import Place, is_local
from .carriers import Carriers
from .output import say

OPEN_MPI, SPECTRUM, MPICH, INTEL = "Open MPI", "IBM Spectrum MPI", "MPICH", "Intel MPI"
_SIGNS = ((SPECTRUM, ("IBM Spectrum MPI",)), (INTEL, ("Intel(R) MPI",)), (OPEN_MPI, ("Open MPI", "OpenRTE", "PRRTE")),
          (MPICH, ("MPICH", "HYDRA")))
_BINDING = {
    OPEN_MPI: ["--bind-to", "none", "--map-by", "slot"],
    SPECTRUM: ["-bind-to", "socket", "-map-by", "socket", "-rank-by", "core"],
    MPICH: ["-bind-to", "none", "-map-by", "slot"],
    INTEL: [],
}
# From here on every host is reached from this one, many at a time.
_MANY_HOSTS = 64
_STOP_LIMIT, _KILL_LIMIT = 6.0, 2.0  # of mpirun once it was told to stop, and of what it leaves
_EXPORTABLE = re.compile(r"[A-Za-z_]\w*")


class MpiError(Exception):
    """The job cannot be started by mpirun; the text says why."""


def implementation_of(text: str) -> Tuple[str, int]:
    """Which MPI printed this as its version, and its major number (0 if there is none)."""
    for name, signs in _SIGNS:
        if any(sign in text for sign in signs):
            number = re.search(r"(?:Open MPI\)?|OpenRTE\)?|PRRTE\)?|Version:?|version)\s*v?(\d+)\.", text)
            return name, int(number.group(1)) if number else 0
    first = (text.strip().splitlines() or ["nothing"])[0]
    raise MpiError(f'mpirun --version prints "{first}"; known are Open MPI, Spectrum MPI, MPICH and Intel MPI')


def command_line(implementation: str, major: int, args, places: Sequence[Place], names: Sequence[str],
                 command: Sequence[str]) -> List[str]:
    """The arguments of mpirun. `names` are variables that the ranks shall have as this process has them."""
    slots: Dict[str, int] = {}
    for place in places:
        slots[place.host] = slots.get(place.host, 0) + 1
    of_open_mpi = implementation in (OPEN_MPI, SPECTRUM)
    parts = _open_mpi(implementation, major, args, slots, names) if of_open_mpi else _hydra(implementation, args, slots)
    extra = shlex.split(args.mpi_args) if args.mpi_args else []
    return ["mpirun", *parts[0], "-np", str(len(places)), *parts[1], *extra, *command]


def _binding(implementation: str, args) -> List[str]:
    return _BINDING[implementation] if args.binding_args is None else shlex.split(args.binding_args)


def _ssh_arguments(args) -> List[str]:
    arguments = shlex.split(os.environ.get("HOROVOD_SSH_ARGS", ""))
    if args.ssh_accept_new:
        arguments += ["-o", "StrictHostKeyChecking=accept-new"]
    if args.ssh_port is not None:
        arguments += ["-p", str(args.ssh_port)]
    if args.ssh_identity_file is not None:
        arguments += ["-i", args.ssh_identity_file]
    return arguments


def _open_mpi(implementation: str, major: int, args, slots: Dict[str, int],
              names: Sequence[str]) -> Tuple[List[str], List[str]]:
    basic = ["--allow-run-as-root", *_output(implementation, major, args)]
    rest = ["-H", ",".join(f"{host}:{count}" for host, count in slots.items()), *_binding(implementation, args)]
    if implementation == OPEN_MPI:
        rest += ["--mca", "pml", "ob1", "--mca", "btl", "^openib"]
    elif args.tcp:
        rest += ["-tcp"]
    ssh = _ssh_arguments(args)
    if ssh:
        rest += ["--mca", "plm_rsh_args", shlex.join(ssh)]
    if len(slots) >= _MANY_HOSTS:
        rest += ["--mca", "plm_rsh_no_tree_spawn", "true", "--mca", "plm_rsh_num_concurrent", str(len(slots))]
    if args.interfaces:
        rest += ["--mca", "btl_tcp_if_include", ",".join(args.interfaces)]
    for name in names:
        rest += ["-x", name]
    return basic, rest


def _output(implementation: str, major: int, args) -> List[str]:
    """How lines are marked, and where they are copied to."""
    if implementation == OPEN_MPI and major >= 5:
        wanted = ["tag", "timestamp"] if args.prefix_output_with_timestamp else ["tag"]
        return ["--output", ",".join(wanted + ([f"file={args.output_filename}"] if args.output_filename else []))]
    arguments = ["--tag-output"]
    if args.output_filename:
        arguments += ["--output-filename", args.output_filename]
    return arguments + (["--timestamp-output"] if args.prefix_output_with_timestamp else [])


def _hydra(implementation: str, args, slots: Dict[str, int]) -> Tuple[List[str], List[str]]:
    if len(set(slots.values())) > 1:
        listed = ",".join(f"{host}:{count}" for host, count in slots.items())
        raise MpiError(f"{implementation} wants as many ranks on every host, not {listed}")
    rest = ["-ppn", str(next(iter(slots.values()))), "-hosts", ",".join(slots), *_binding(implementation, args)]
    ssh = _ssh_arguments(args)
    if ssh:
        rest += ["-bootstrap=ssh", "-bootstrap-exec-args", shlex.join(ssh)]
    if args.interfaces:
        if len(args.interfaces) > 1:
            raise MpiError(f"{implementation} takes one network interface, not {','.join(args.interfaces)}")
        rest += ["-iface", args.interfaces[0]]
    if args.output_filename:
        rest += ["-outfile-pattern", args.output_filename]
    return ["-l"], rest


def exported_names(variables: Dict[str, str]) -> List[str]:
    """The variables that ranks on other hosts shall have, sorted."""
    own = {**environment.forwarded(variables)}
    return sorted(name for name in own if _EXPORTABLE.fullmatch(name))


def run_mpi(args, places: List[Place], command: List[str]) -> NoReturn:
    """Becomes mpirun, or raises MpiError."""
    line, variables = _prepared(args, places, command, _implementation(), args.run_folder)
    if args.parent_pipe is not None:
        processes.stop_with_parent()
    os.execvpe(line[0], line, variables)


def run_mpi_with_carriers(args, places: List[Place], command: List[str], ssh: SshOptions) -> Tuple[int, List[str]]:
    """mpirun for horovod.run with ranks on other hosts: its exit code, and what was wrong with hosts. Or raises MpiError."""
    implementation = _implementation()
    processes.stop_with_parent()
    processes.adopt_orphans()
    far = [host for host in dict.fromkeys(place.host for place in places) if not is_local(host)]
    with Carriers(far, ssh, args.run_folder) as carriers:
        folders = carriers.take(args.start_limit)
        if carriers.problems:
            return 1, carriers.problems
        line, variables = _prepared(args, places, command, implementation, os.pathsep.join([args.run_folder, *folders]))
        code, stopped = _run_beside(line, variables, carriers)
        if not stopped:
            carriers.bring([f"result.{place.rank}" for place in places])
    if stopped or carriers.problems:
        processes.kill_all(os.getpid(), processes.reap_ended, _KILL_LIMIT)  # ranks here, if mpirun did not get to it
    return code or int(bool(carriers.problems)), carriers.problems


def _run_beside(line: List[str], variables: Dict[str, str], carriers: Carriers) -> Tuple[int, bool]:
    """Runs mpirun while the carriers wait: its exit code, and whether a signal has stopped us."""
    signals: List[int] = []

    def become_child() -> None:
        processes.stop_with_parent()
        if os.getppid() != parent:  # it ended before the call above
            os._exit(1)

    def pass_on(number: int, frame) -> None:
        signals.append(number)
        process.send_signal(number)

    parent = os.getpid()
    process = subprocess.Popen(line, env=variables, preexec_fn=become_child)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    carriers.wait_for(process.pid)
    if carriers.problems:
        process.terminate()
    try:
        code = process.wait(_STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    return code if code >= 0 else 128 - code, bool(signals)


def _implementation() -> Tuple[str, int]:
    """The mpirun of PATH and its major number."""
    try:
        done = subprocess.run(["mpirun", "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
    except OSError as error:
        raise MpiError(f"mpirun: {error.strerror.lower()}; install an MPI, or leave --mpi out") from None
    return implementation_of(done.stdout)


def _prepared(args, places: List[Place], command: List[str], mpi: Tuple[str, int],
              run_folder: Optional[str]) -> Tuple[List[str], Dict[str, str]]:
    """The command line of mpirun and its environment."""
    implementation, major = mpi
    variables = {name: value for name, value in os.environ.items() if name not in environment.of_another_job(os.environ)}
    variables.update(environment.of_flags(args))
    variables.update(environment.of_job(args.interfaces))
    if run_folder:
        variables["HOROVOD_RUN_FOLDER"] = run_folder
    variables.setdefault("OMP_NUM_THREADS", str(environment.threads_per_rank(max(place.local_size for place in places))))
    names = exported_names(variables) + (["HOROVOD_RUN_FOLDER"] if run_folder else [])
    line = command_line(implementation, major, args, places, names, command)
    if implementation == OPEN_MPI and major >= 5 and args.output_filename:
        say(f"--output-filename: Open MPI {major} writes {args.output_filename}.* in place of the console")
    if args.verbose:
        say(f"{implementation}: {shlex.join(line)}")
    return line, variables
