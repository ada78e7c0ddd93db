# SPDX-License-Identifier: Apache-2.0
"""The command line of horovodrun. A flag that was not given is None, so that a config file or the environment counts."""

import argparse
import os
import sys
from typing import List, NoReturn, Optional

from ..plan.flag_table import CARRIERS, COUNT, ENGINE, FLAGS, IDLE, MAIN, METRICS, REAL, STALLS, SWITCH, Flag, at_least

_DESCRIPTION = """\
Starts a command as several processes (ranks) that train together.

examples:
  horovodrun -np 4 python train.py             4 ranks on this machine
  horovodrun -H localhost:4 python train.py    the same: one rank for each slot
  horovodrun -np 16 -H server1:4,server2:4,server3:4,server4:4 python train.py
                                               4 ranks on each of 4 hosts, reached by ssh without a password
  horovodrun -hostfile hosts -np 8 ./program   hosts from a file with lines `server1 slots=4`; any program
  horovodrun -H 127.0.0.1:2,127.0.0.2:2 python train.py
                                               2 ranks on each of 2 hosts that this machine plays
  horovodrun -np 4 --min-np 2 --host-discovery-script ./hosts.sh python train.py
                                               elastic: goes on with 2 ranks, on hosts that ./hosts.sh lists
  horovodrun --check-build                     what this installation can do
  horovodrun doctor -H server1:4,server2:4     whether a job will run there, and if not, what to do
  horovodrun timeline merge all.json run*.json one file of the timelines of all ranks
  horovodrun status                            what each rank of a running job does, and who is waited for
  horovodrun stacks                            the same with the stack of each rank

Every line of output is prefixed with its rank, as in [0]<stdout>:. When a rank fails, the others are stopped within
5 s, its exception or the last lines of its stderr are printed, and horovodrun returns its exit code (128 + the number
of a signal).
Flags come before the command; what follows the command belongs to it. HOROVOD_SSH_ARGS adds options of ssh.
"""
_ENGINE = "engine (each sets the variable named; without the flag your own value counts)"
_METRICS = "metrics for Prometheus, which need the package prometheus_client"
# The title of the flags that do nothing.
WITHOUT_EFFECT = "known, but without effect in this version: horovodrun says so and goes on"
_NUMBER, _FILE = "N", "FILE"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            import difflib

            unknown = message[len(prefix):].split()[0]
            shown = [action for action in self._actions if action.help is not argparse.SUPPRESS]
            known = [name for action in shown for name in action.option_strings]
            close = difflib.get_close_matches(unknown.partition("=")[0], known, 1)
            message = f"{unknown}: unknown flag; " + (f"did you mean {close[0]}?" if close else "see horovodrun --help")
        fail(message)


def fail(message: str) -> NoReturn:
    """Ends horovodrun because it was called wrongly."""
    sys.stderr.write(f"horovodrun: {message}\n")
    sys.exit(2)


def build_parser() -> argparse.ArgumentParser:
    """The command line of horovodrun."""
    parser = _Parser(
        prog="horovodrun", usage="horovodrun [flags] command [arguments]", description=_DESCRIPTION, allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=34, width=118),
    )
    parser.add_argument("-v", "--version", action="store_true", help="print the version and exit")
    parser.add_argument("-cb", "--check-build", action="store_true",
                        help="print what this installation can do and exit")
    parser.add_argument("-np", "--num-proc", type=COUNT, metavar=_NUMBER,
                        help="number of ranks; default: all slots of the hosts")
    _add_from_table(parser, MAIN)
    parser.add_argument("--config-file", metavar=_FILE, help="YAML file with values for flags; a flag given here wins")
    parser.add_argument("--verbose", action="store_true", default=None,
                        help="tell what is started where, and with what environment")
    parser.add_argument("--disable-cache", action="store_true", default=None,
                        help="accepted; checks of hosts are never taken from a cache")
    parser.add_argument("--status-file", help=argparse.SUPPRESS)  # horovod.run reads how the job went from there
    parser.add_argument("--run-folder", help=argparse.SUPPRESS)  # has its function, and takes the results
    parser.add_argument("--parent-pipe", type=int, help=argparse.SUPPRESS)  # stop when this descriptor closes
    _add_hosts(parser)
    _add_output(parser)
    _add_controllers(parser)
    for number, title in ((ENGINE, _ENGINE), (STALLS, "stalls and log"), (METRICS, _METRICS), (IDLE, WITHOUT_EFFECT)):
        _add_from_table(parser.add_argument_group(title), number)
    _add_elastic(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_from_table(group, number: int) -> None:
    """Adds the flags that the table has in this group."""
    for flag in FLAGS:
        if flag.group == number and flag.kind is SWITCH:
            _add_switch(group, flag)
        elif flag.group == number:
            group.add_argument(f"--{flag.name}", type=flag.kind.read, choices=flag.kind.choices, metavar=flag.metavar,
                               help=_help(flag))


def _add_switch(group, flag: Flag) -> None:
    """The switch and its opposite, which is not in the help unless it says something new."""
    pair = group.add_mutually_exclusive_group()
    pair.add_argument(f"--{flag.name}", *flag.also, dest=flag.attribute, action="store_true", default=None, help=_help(flag))
    pair.add_argument(*flag.opposites, dest=flag.attribute, action="store_false", default=None,
                      help=f"the opposite of --{flag.name}" if flag.shows_opposite else argparse.SUPPRESS)


def _help(flag: Flag) -> str:
    if flag.help is None:
        return argparse.SUPPRESS
    if flag.variable is None or flag.group == IDLE:
        return flag.help
    return f"{flag.help}: {flag.variable}" + ("=1" if flag.kind is SWITCH else "")


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("hosts (ranks fill them in the given order)")
    one = group.add_mutually_exclusive_group()
    one.add_argument("-H", "--hosts", metavar="HOST:SLOTS,...",
                     help="where ranks may run, and how many; default localhost:N")
    one.add_argument("-hostfile", "--hostfile", metavar=_FILE,
                     help="the same from a file: lines `host slots=N` or `host:N`")
    one.add_argument("--host-discovery-script", metavar="COMMAND",
                     help="a script that prints them, a line `host:slots` each; asked every second while an elastic job runs")
    group.add_argument("-p", "--ssh-port", type=at_least(int, 1, 65535), metavar="PORT",
                       help="port of ssh on the other hosts")
    group.add_argument("-i", "--ssh-identity-file", metavar=_FILE, help="key that ssh uses")
    group.add_argument("--ssh-accept-new", action="store_true", default=None,
                       help="trust hosts that ssh meets for the first time; without it their key must be known")
    group.add_argument("--network-interfaces", metavar="NAME,...",
                       help="network interfaces that ranks may use; default: all. Also for NCCL (NCCL_SOCKET_IFNAME)")
    group.add_argument("--network-interface", action="append", metavar="NAME",
                       help="the same, one at a time; may be repeated")


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--output-filename", metavar="FOLDER",
                       help="also write FOLDER/rank.<rank>/stdout and stderr here, without prefixes, and at the end records.jsonl: "
                            "the rank's last operations")
    group.add_argument("-prefix-timestamp", "--prefix-output-with-timestamp", action="store_true", default=None,
                       help="begin every forwarded line with the time")


def _add_controllers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who starts the ranks and carries data between hosts (default: horovodrun and libhvd)")
    one = group.add_mutually_exclusive_group()
    one.add_argument("--gloo", dest="controller", action="store_const", const="gloo",
                     help="operations of Gloo: HOROVOD_CPU_OPERATIONS=gloo")
    one.add_argument("--mpi", dest="controller", action="store_const", const="mpi",
                     help="start through mpirun, operations of MPI: HOROVOD_CPU_OPERATIONS=mpi")
    one.add_argument("--jsrun", dest="controller", action="store_const", const="jsrun", help=argparse.SUPPRESS)
    group.add_argument("--mpi-args", metavar="ARGS", help='more arguments of mpirun, as in --mpi-args="--map-by core"')
    group.add_argument("--binding-args", metavar="ARGS",
                       help="arguments of mpirun that bind ranks, in place of the usual ones")
    group.add_argument("--tcp", action="store_true", default=None,
                       help="only TCP between hosts, no InfiniBand: NCCL_IB_DISABLE=1; -tcp for Spectrum MPI")
    _add_from_table(group, CARRIERS)


def _add_elastic(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("elastic jobs, whose ranks may fail and be replaced: horovodrun -np 4 --min-np 2 python train.py")
    group.add_argument("--min-np", "--min-num-proc", type=COUNT, metavar=_NUMBER, dest="min_num_proc",
                       help="goes on with so many ranks; the program uses hvd.elastic")
    group.add_argument("--max-np", "--max-num-proc", type=COUNT, metavar=_NUMBER, dest="max_num_proc",
                       help="most ranks at a time; default: every slot of the hosts")
    group.add_argument("--slots-per-host", "--slots", type=COUNT, metavar=_NUMBER,
                       help="slots of a host that the script of --host-discovery-script lists without a number; default 1")
    group.add_argument("--elastic-timeout", type=REAL, metavar="SECONDS",
                       help="how long the job waits for ranks that it needs; default 600: HOROVOD_ELASTIC_TIMEOUT")
    group.add_argument("--reset-limit", type=COUNT, metavar=_NUMBER,
                       help="how often the members of the job may change; default: without a limit")
    group.add_argument("--blacklist-cooldown-range", type=at_least(int, 1, 3600), nargs=2, metavar=("SHORTEST", "LONGEST"),
                       help="seconds that a slot is not used after a rank there has failed; more with each failure")


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The flags, completed from a config file and the environment."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.config_file is not None:
        from .config_file import ConfigError, apply

        try:
            apply(args, args.config_file)
        except ConfigError as error:
            fail(str(error))
    if args.grace_period is None and os.environ.get("HOROVOD_GRACE_PERIOD"):
        args.grace_period = _seconds_of("HOROVOD_GRACE_PERIOD", REAL, "from 0")
    if args.elastic_timeout is None:
        args.elastic_timeout = _seconds_of("HOROVOD_ELASTIC_TIMEOUT", REAL, "from 0", "600")
    args.interfaces = split_interfaces(args.network_interfaces, args.network_interface)
    args.start_limit = args.start_timeout
    if args.start_limit is None:
        args.start_limit = _seconds_of("HOROVOD_START_TIMEOUT", at_least(float, 0.001), "above 0", "30")
    return args


def _seconds_of(variable: str, kind, allowed: str, default: str = "") -> float:
    text = os.environ.get(variable, default)
    try:
        return kind(text)
    except (ValueError, argparse.ArgumentTypeError):
        return fail(f'{variable}: "{text}" is not a number of seconds {allowed}')


def split_interfaces(joined: Optional[str], single: Optional[List[str]]) -> Optional[List[str]]:
    """The names given with --network-interfaces and --network-interface, else those of the environment; None: all."""
    given = [joined] if joined else []
    given += single or []
    if not given and os.environ.get("HOROVOD_NETWORK_INTERFACES"):
        given = [os.environ["HOROVOD_NETWORK_INTERFACES"]]
    names = [name.strip() for text in given for name in text.split(",")]
    if "" in names:
        fail(f'network interfaces "{",".join(given)}": an empty name')
    return list(dict.fromkeys(names)) or None
