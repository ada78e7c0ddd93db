# SPDX-License-Identifier: Apache-2.0
"""horovodrun: starts a command as the ranks of a job on this machine. Imports nothing heavy: a job starts in milliseconds."""

import argparse
import sys
from typing import List, Optional

from . import environment, hosts

_DESCRIPTION = """\
Starts a command as several processes (ranks) that train together.

examples:
  horovodrun -np 4 python train.py             4 ranks on this machine
  horovodrun -H localhost:4 python train.py    the same: one rank for each slot
  horovodrun -np 2 ./program                   any program, not only Python
  horovodrun -H 127.0.0.1:2,127.0.0.2:2 python train.py
                                               2 ranks on each of 2 hosts that this machine plays
  horovodrun --check-build                     what this installation can do

Every line of output is prefixed with its rank, as in [0]<stdout>:. When a rank fails, the others are stopped within 5 s,
the last lines of its stderr are printed, and horovodrun returns its exit code (128 + number for a death by signal).
Flags come before the command; what follows the command belongs to it.
"""
_SECONDS = "SECONDS"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            known = ", ".join(
                action.option_strings[-1]
                for action in self._actions
                if action.option_strings and action.help is not argparse.SUPPRESS
            )
            message = f"{message[len(prefix):].split()[0]}: unknown flag; this version has {known}"
        fail(message)


def fail(message: str) -> None:
    """Ends horovodrun because it was called wrongly."""
    sys.stderr.write(f"horovodrun: {message}\n")
    sys.exit(2)


def _at_least(kind, lowest):
    def convert(text: str):
        value = kind(text)
        if not value >= lowest:
            raise argparse.ArgumentTypeError(f"{text} is less than {lowest}")
        return value

    convert.__name__ = kind.__name__
    return convert


def build_parser() -> argparse.ArgumentParser:
    """The command line of horovodrun."""
    parser = _Parser(
        prog="horovodrun", usage="horovodrun [flags] command [arguments]", description=_DESCRIPTION, allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=34, width=118),
    )
    parser.add_argument("-v", "--version", action="store_true", help="print the version and exit")
    parser.add_argument("-cb", "--check-build", action="store_true", help="print what this installation can do and exit")
    parser.add_argument("-np", "--num-proc", type=_at_least(int, 1), metavar="N",
                        help="number of ranks; default: all slots of -H")
    parser.add_argument("-H", "--hosts", metavar="HOST:SLOTS,...",
                        help="where ranks may run, and how many; this version: names of this machine only")
    parser.add_argument("--start-timeout", type=_at_least(int, 1), metavar=_SECONDS,
                        help="time within which all ranks must have called init (default 30)")
    parser.add_argument("--verbose", action="store_true", help="tell what is started where, and with what environment")
    parser.add_argument("--status-file", help=argparse.SUPPRESS)  # horovod.run reads how the job went from there
    parser.add_argument("--parent-pipe", type=int, help=argparse.SUPPRESS)  # stop when this descriptor closes
    _add_output_flags(parser)
    _add_engine_flags(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_output_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--output-filename", metavar="FOLDER",
                       help="also write FOLDER/rank.<rank>/stdout and stderr, without prefixes")
    group.add_argument("-prefix-timestamp", "--prefix-output-with-timestamp", action="store_true",
                       help="begin every forwarded line with the time")


def _add_engine_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine (each sets the variable named; without the flag your own value counts)")
    group.add_argument("--fusion-threshold-mb", type=_at_least(int, 0), metavar="MB",
                       help="most data reduced as one operation; 0 reduces each tensor alone: HOROVOD_FUSION_THRESHOLD")
    group.add_argument("--cycle-time-ms", type=_at_least(float, 0), metavar="MS",
                       help="longest wait for more tensors to reduce together: HOROVOD_CYCLE_TIME")
    group.add_argument("--cache-capacity", type=_at_least(int, 0), metavar="N",
                       help="operations whose agreement is remembered: HOROVOD_CACHE_CAPACITY")
    pair = group.add_mutually_exclusive_group()
    pair.add_argument("--hierarchical-allreduce", action="store_true", default=None,
                      help="reduce inside each host first: HOROVOD_HIERARCHICAL_ALLREDUCE=1")
    pair.add_argument("--no-hierarchical-allreduce", dest="hierarchical_allreduce", action="store_false", default=None,
                      help="treat all ranks alike: HOROVOD_HIERARCHICAL_ALLREDUCE=0")
    pair = group.add_mutually_exclusive_group()
    pair.add_argument("--no-stall-check", action="store_true", default=None,
                      help="do not report tensors that some ranks never submit: HOROVOD_STALL_CHECK_DISABLE=1")
    pair.add_argument("--stall-check", dest="no_stall_check", action="store_false", default=None,
                      help="report them: HOROVOD_STALL_CHECK_DISABLE=0")
    group.add_argument("--stall-check-warning-time-seconds", type=_at_least(int, 0), metavar=_SECONDS,
                       help="report them after this time: HOROVOD_STALL_CHECK_TIME_SECONDS")
    group.add_argument("--stall-check-shutdown-time-seconds", type=_at_least(int, 0), metavar=_SECONDS,
                       help="end the job after this time; 0 never does: HOROVOD_STALL_SHUTDOWN_TIME_SECONDS")
    group.add_argument("--log-level", type=str.lower, metavar="LEVEL",
                       choices=("trace", "debug", "info", "warning", "error", "fatal"),
                       help="trace, debug, info, warning, error or fatal: HOROVOD_LOG_LEVEL")
    pair = group.add_mutually_exclusive_group()
    pair.add_argument("--log-without-timestamp", action="store_true", default=None,
                      help="log lines without the time: HOROVOD_LOG_HIDE_TIME=1")
    pair.add_argument("--log-with-timestamp", dest="log_without_timestamp", action="store_false", default=None,
                      help="log lines with the time: HOROVOD_LOG_HIDE_TIME=0")


def main(argv: Optional[List[str]] = None) -> int:
    """Runs horovodrun; returns its exit code."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.version:
        from .check_build import version

        print(version())
        return 0
    if args.check_build:
        from .check_build import report

        print(report())
        return 0
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        fail("no command given; for example: horovodrun -np 2 python train.py")
    try:
        return _run_job(args, _places(args), command)
    except KeyboardInterrupt:
        return 130


def _places(args) -> List[hosts.Place]:
    if args.num_proc is None and args.hosts is None:
        fail("number of ranks not given; use -np N, or -H localhost:N")
    try:
        listed = hosts.parse_hosts(args.hosts or f"localhost:{args.num_proc}")
        hosts.check_local(listed)
        return hosts.assign(listed, args.num_proc)
    except hosts.HostError as error:
        return fail(str(error))


def _run_job(args, places: List[hosts.Place], command: List[str]) -> int:
    from .job import Job
    from .private_dir import PrivateDir
    from .summary import OutOfMemoryWatch

    try:
        private = PrivateDir()
    except OSError as error:
        Job.say(f"private directory: {error}")
        return 1
    try:
        variables = {**environment.of_flags(args), **environment.of_job(places, private.rendezvous())}
        if args.verbose:
            _tell(places, variables, private.path)
        memory = OutOfMemoryWatch()
        job = Job(places, command, variables, [environment.of_rank(place) for place in places], args.output_filename,
                  args.prefix_output_with_timestamp, args.verbose, args.parent_pipe)
        try:
            outcome = job.run()
        except OSError as error:
            Job.say(f"job not started: {error}")
            return 1
    finally:
        private.remove()
    _tell_outcome(outcome, command, memory, args)
    return outcome.exit_code()


def _tell(places: List[hosts.Place], variables, private: str) -> None:
    from .job import Job

    Job.say(f"{len(places)} ranks on {len({place.host for place in places})} hosts, private directory {private}")
    Job.say("environment of every rank: " + " ".join(f"{name}={value}" for name, value in sorted(variables.items())))
    for place in places:
        Job.say("rank {0.rank}: host {0.host}, local rank {0.local_rank} of {0.local_size}, "
                "cross rank {0.cross_rank} of {0.cross_size}".format(place))


def _tell_outcome(outcome, command: List[str], memory, args) -> None:
    from . import summary
    from .job import Job

    if outcome.left_behind and (args.verbose or outcome.exit_code() == 0):
        names = ", ".join(f"{name} (pid {pid})" for pid, name in outcome.left_behind)
        Job.say(f"stopped {len(outcome.left_behind)} processes that outlived the ranks: {names}")
    if outcome.unkillable:
        Job.say("processes that SIGKILL did not end: " + " ".join(map(str, outcome.unkillable)))
    if outcome.guardian_lost:
        Job.say("the guardian process was killed; everything it had started was killed with it")
    if outcome.not_started is not None:
        rank, number, text = outcome.not_started
        Job.say(f'command "{command[0]}": {text.lower()} ({number}) for rank {rank}; all ranks were stopped')
    lines: List[str] = []
    if outcome.first_failure is not None:
        lines = summary.failure_block(outcome, memory.evidence())
        Job.say("\n".join(lines)[len("horovodrun: ") :])
    if args.status_file:
        _write_status(args.status_file, outcome, lines)


def _write_status(path: str, outcome, lines: List[str]) -> None:
    import json
    import os

    status = {"exit_code": outcome.exit_code(), "first_failure": outcome.first_failure, "summary": lines}
    with open(path + ".part", "w") as file:
        json.dump(status, file)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    sys.exit(main())
