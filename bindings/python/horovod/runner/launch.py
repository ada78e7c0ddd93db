# SPDX-License-Identifier: Apache-2.0
"""horovodrun: starts a command as the ranks of a job. Imports nothing heavy: a job starts in milliseconds."""

import importlib
import os
import sys
from typing import Iterable, List, Optional

from .command_line import unsupported
from .command_line.flags import fail, parse
from .job.output import say
from .plan import environment, hosts


# What horovodrun does besides starting a job: imported when it is asked for, and called with the arguments behind its name.
_COMMANDS = {
    "doctor": ".doctor.command:main",
    "timeline": ".timeline.command:main",
    "status": ".ask.command:status",
    "stacks": ".ask.command:stacks",
    "report": ".report.command:main",
}


def main(argv: Optional[List[str]] = None) -> int:
    """Runs horovodrun; returns its exit code."""
    given = sys.argv[1:] if argv is None else argv
    if given and given[0] in _COMMANDS:
        module, function = _COMMANDS[given[0]].split(":")
        return getattr(importlib.import_module(module, __package__), function)(given[1:])
    _check_command(given)
    args = parse(argv)
    if args.version:
        from .command_line.check_build import version

        print(version())
        return 0
    if args.check_build:
        from .command_line.check_build import report

        print(report())
        return 0
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        fail("no command given; for example: horovodrun -np 2 python train.py")
    refusal = unsupported.refusal(args)
    if refusal:
        fail(refusal)
    discovery = _discovery(args)
    listed = _hosts(args, discovery)
    places = _places(args, listed)
    _check_folder()
    for line in [*unsupported.notices(args), *_fall_back(args)]:
        say(line)
    try:
        if args.controller == "mpi":
            return _run_mpi(args, places, command)
        return _run_job(args, lambda task: _job(args, listed, task, discovery), places, command)
    except KeyboardInterrupt:
        return 130


def _check_command(given: List[str]) -> None:
    """A word alone, without flags, that is no program: perhaps a command of horovodrun itself."""
    if given and not given[0].startswith("-"):
        import difflib
        import shutil

        meant = difflib.get_close_matches(given[0], _COMMANDS)
        if meant and shutil.which(given[0]) is None:
            fail(f"{given[0]}: no such program or command; did you mean horovodrun {meant[0]}?")


def _fall_back(args) -> List[str]:
    """Who says --gloo means: without MPI. Who chooses Gloo by HOROVOD_CPU_OPERATIONS means Gloo, and is told by the ranks."""
    if args.controller != "gloo" or os.environ.get("HOROVOD_CPU_OPERATIONS", "").lower() == "gloo":
        return []
    from .command_line.check_build import native_in_place_of_gloo

    notice = native_in_place_of_gloo()
    if not notice:
        return []
    args.controller = None
    return [notice]


def _check_folder() -> None:
    """Ranks start in the folder where horovodrun was started."""
    try:
        os.getcwd()
    except OSError:
        fail("the current folder was removed; change to one that exists")


def _discovery(args):
    """Who lists the hosts while the job runs; None if they are fixed."""
    if args.host_discovery_script is None:
        return None
    from .job.discovery import Discovery

    return Discovery(args.host_discovery_script, args.slots_per_host)


def _hosts(args, discovery) -> List[hosts.Host]:
    if discovery is not None:
        from .job.discovery import DiscoveryError

        try:
            return discovery.wait(args.num_proc or args.min_num_proc or 1, args.elastic_timeout)
        except DiscoveryError as error:
            return fail(f"host discovery script {args.host_discovery_script}: {error}")
        except KeyboardInterrupt:
            sys.exit(130)
    if args.num_proc is None and args.hosts is None and args.hostfile is None:
        fail("number of ranks not given; use -np N, or -H localhost:N")
    try:
        if args.hostfile is not None:
            return hosts.read_hostfile(args.hostfile)
        return hosts.parse_hosts(args.hosts or f"localhost:{args.max_num_proc or args.num_proc}")
    except hosts.HostError as error:
        return fail(str(error))


def _places(args, listed: List[hosts.Host]) -> List[hosts.Place]:
    try:
        return hosts.assign(listed, args.num_proc)
    except hosts.HostError as error:
        return fail(str(error))


def _run_mpi(args, places: List[hosts.Place], command: List[str]) -> int:
    from .job.mpi import MpiError, run_mpi, run_mpi_with_carriers

    try:
        if args.run_folder and not all(map(hosts.is_local, {place.host for place in places})):
            code, problems = run_mpi_with_carriers(args, places, command, _ssh(args))
            if problems:
                say("\n".join(problems))
                _write_status(args.status_file, code, None, problems)
            return code
        run_mpi(args, places, command)
    except MpiError as error:
        return fail(f"--mpi: {error}")


def _run_job(args, make_job, places: List[hosts.Place], command: List[str]) -> int:
    from .job.summary import OutOfMemoryWatch
    from .on_host.preparation import write_secret
    from .on_host.private_dir import PrivateDir, base

    if args.interfaces:
        _check_interfaces(args, places)
    private = None
    try:
        private = PrivateDir()
        secret = os.urandom(32).hex()
        write_secret(private.path, secret)
    except OSError as error:
        if private is not None:
            private.remove()
        say(f"no private directory in {base()}: {error.strerror.lower()}; TMPDIR names another folder")
        return 1
    try:
        if args.metrics_token_out is not None:
            from .command_line import metrics_token

            metrics_token.write(args.metrics_token_out, secret)
        if args.verbose:
            _tell(places, private.path)
        memory = OutOfMemoryWatch()
        try:
            job = make_job(_task(args, places, command, secret, private.path))
            outcome = job.run()
        except OSError as error:
            say(f"job not started: {error}")
            return 1
        _keep_records(job, outcome, private.path, args.output_filename)
    finally:
        private.remove()
    _tell_outcome(outcome, command, memory, args)
    return outcome.exit_code()


def _keep_records(job, outcome, private: str, output_folder: Optional[str]) -> None:
    """What the ranks did last stays, if the job failed or the user wants it. `horovodrun ... | head` is no failure."""
    import signal

    if output_folder is None and (outcome.exit_code() == 0 or outcome.signal == signal.SIGPIPE):
        return
    from .job import record_files

    try:
        outcome.records = record_files.place(private, len(outcome.ranks), output_folder, job.clock_of)
    except OSError as error:
        say(f"the records of the ranks cannot be written: {error}")


def _job(args, listed: List[hosts.Host], task, discovery):
    if args.min_num_proc is None and discovery is None:
        from .job.job import Job

        return Job(task)
    from .job.elastic_job import ElasticJob

    return ElasticJob(task, _bounds(args, listed, discovery is None), listed, discovery)


def _bounds(args, listed: List[hosts.Host], fixed: bool):
    from .membership.orders import ANY_NUMBER, Bounds

    slots = sum(host.slots for host in listed) if fixed else ANY_NUMBER
    first = args.num_proc or (slots if fixed else args.min_num_proc or 1)
    least = args.min_num_proc or first
    most = args.max_num_proc or slots
    if not least <= first <= most:
        fail(f"--min-np {least}, -np {first}, --max-np {most}: they do not rise")
    cooldown = tuple(args.blacklist_cooldown_range) if args.blacklist_cooldown_range else None
    return Bounds(first, least, most, args.elastic_timeout, fixed, args.reset_limit, cooldown)


def _check_interfaces(args, places: List[hosts.Place]) -> None:
    """A job on this machine alone has nobody to ask what a name of an interface means."""
    from .on_host import interfaces

    if all(hosts.is_local(host) for host in {place.host for place in places}):
        existing = sorted({name for name, _, _ in interfaces.every_address()})
        missing = [name for name in args.interfaces if name not in existing]
        if missing:
            fail(f"network interface {', '.join(missing)}: not found; there are {', '.join(existing)}")


def _task(args, places: List[hosts.Place], command: List[str], secret: str, folder: str):
    from .job.task import Task

    return Task(
        places, command, {**environment.of_flags(args), **environment.of_job(args.interfaces)}, secret, folder,
        start_timeout=args.start_limit, interfaces=args.interfaces, ssh=_ssh(args), output_folder=args.output_filename,
        timestamp=bool(args.prefix_output_with_timestamp), verbose=bool(args.verbose), parent_pipe=args.parent_pipe,
        run_folder=args.run_folder, grace=args.grace_period,
    )


def _ssh(args):
    from .agents.remote import SshOptions

    connect_timeout = max(1, min(10, int(args.start_limit)))
    return SshOptions(args.ssh_port, args.ssh_identity_file, bool(args.ssh_accept_new), connect_timeout)


def _tell(places: List[hosts.Place], private: str) -> None:
    say(f"{len(places)} ranks on {len({place.host for place in places})} hosts, private directory {private}")
    for place in places:
        say("rank {0.rank}: host {0.host}, local rank {0.local_rank} of {0.local_size}, "
            "cross rank {0.cross_rank} of {0.cross_size}".format(place))


def _tell_outcome(outcome, command: List[str], memory, args) -> None:
    from .job import signals, summary

    if outcome.left_behind and (args.verbose or outcome.exit_code() == 0):
        names = ", ".join(f"{name} (pid {pid}{f' on {host}' if host else ''})" for pid, name, host in outcome.left_behind)
        say(f"stopped {len(outcome.left_behind)} processes that outlived the ranks: {names}")
    if outcome.output_lost:
        say(f"the output of the ranks cannot be written: {outcome.output_lost}; all ranks were stopped")
    busy = signals.busy_ranks(outcome)
    if busy:
        say(busy)
    if outcome.unkillable:
        say("processes that SIGKILL did not end: " + " ".join(map(str, outcome.unkillable)))
    if outcome.guardian_lost:
        say("the guardian process was killed; everything it had started was killed with it")
    if outcome.not_started is not None:
        rank, number, text = outcome.not_started
        where = f"rank {rank}{_where(outcome, rank)}"
        say(f'command "{command[0]}": {text.lower()} ({number}) for {where}; all ranks were stopped')
    for host, why in outcome.not_ready:
        say(f'host "{host}": {why}')
    lines: List[str] = []
    for host, why in outcome.lost_hosts:
        lines.append(f'host "{host}" was lost: {why}; what ran there is stopped there')
    if getattr(outcome, "why", None):
        lines.append(f"the job cannot go on: {outcome.why}")
    if outcome.first_failure is not None:
        lines += summary.failure_block(outcome, memory.evidence())
    elif outcome.signal is not None:
        lines += summary.stop_block(outcome)
    if lines:
        say("\n".join(lines))
    if args.status_file:
        lines = lines or [f'host "{host}": {why}' for host, why in outcome.not_ready]
        _write_status(args.status_file, outcome.exit_code(), outcome.first_failure, lines, getattr(outcome, "members", ()))


def _where(outcome, rank: int) -> str:
    host = outcome.ranks[rank].place.host
    return "" if hosts.is_local(host) else f' on host "{host}"'


def _write_status(path: str, code: int, first_failure: Optional[int], lines: List[str], members: Iterable[int] = ()) -> None:
    import json

    status = {"exit_code": code, "first_failure": first_failure, "summary": lines, "members": list(members)}
    with open(path + ".part", "w") as file:
        json.dump(status, file)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    sys.exit(main())
