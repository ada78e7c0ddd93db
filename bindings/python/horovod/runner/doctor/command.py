# SPDX-License-Identifier: Apache-2.0
"""horovodrun doctor: will a job run on these hosts, and if not, what is to be done? Imports nothing heavy."""

import argparse
import os
import sys
import time
from typing import List, Optional

from ..agents.remote import SshOptions
from ..command_line.flags import COUNT, at_least, fail, split_interfaces
from ..plan import hosts
from . import judge, judge_all, launch, report
from .examination import Examination

_DESCRIPTION = """\
Looks whether a job will run on these hosts, and says what to do where it will not. Nothing is changed anywhere.

examples:
  horovodrun doctor                              this machine, with a real job of 2 ranks
  horovodrun doctor -H server1:4,server2:4       this machine and these, and every connection between them
  horovodrun doctor -hostfile hosts --fast       without bandwidth, which takes 0.3 s for each pair of hosts
  horovodrun doctor -H server1:4 -p 2222 --ssh-accept-new
                                                 with the same flags for ssh as the job would have
  horovodrun doctor --json | python -m json.tool everything that was found, as one JSON object

Every finding is a line: ok, warning or failed, and what was found; -> says what to do.
Exit code: 0 nothing failed, 1 something did, 2 wrong flags or hosts.
"""


def build_parser() -> argparse.ArgumentParser:
    """The command line of horovodrun doctor; what it shares with horovodrun means the same."""
    parser = argparse.ArgumentParser(
        prog="horovodrun doctor",
        usage="horovodrun doctor [flags]",
        description=_DESCRIPTION,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=34, width=118),
    )
    parser.error = fail  # one line, as for horovodrun itself
    one = parser.add_mutually_exclusive_group()
    one.add_argument("-H", "--hosts", metavar="HOST:SLOTS,...", help="the hosts; default localhost")
    one.add_argument(
        "-hostfile", "--hostfile", metavar="FILE", help="the same from a file: lines `host slots=N` or `host:N`"
    )
    parser.add_argument("--fast", action="store_true", help="do not measure bandwidth")
    parser.add_argument("--json", action="store_true", help="print one JSON object (docs/doctor.md lists its keys)")
    parser.add_argument(
        "-p", "--ssh-port", type=at_least(int, 1, 65535), metavar="PORT", help="port of ssh on the other hosts"
    )
    parser.add_argument("-i", "--ssh-identity-file", metavar="FILE", help="key that ssh uses")
    parser.add_argument("--ssh-accept-new", action="store_true", help="trust hosts that ssh meets for the first time")
    parser.add_argument(
        "--network-interfaces", metavar="NAME,...", help="network interfaces that ranks may use; default: all"
    )
    parser.add_argument(
        "--network-interface", action="append", metavar="NAME", help="the same, one at a time; may be repeated"
    )
    parser.add_argument(
        "--start-timeout",
        type=COUNT,
        default=10,
        metavar="SECONDS",
        help="time for a host to be reached and looked at (default 10)",
    )
    return parser


def main(argv: List[str]) -> int:
    """Runs the doctor; returns its exit code."""
    args = build_parser().parse_args(argv)
    interfaces = split_interfaces(args.network_interfaces, args.network_interface)
    listed = _hosts(args)
    try:
        found = examine(args, listed, interfaces)
    except KeyboardInterrupt:
        return 130
    if args.json:
        import json

        text = json.dumps(found)
    else:
        text = report.as_text(
            found, sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
        )
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader has gone; nothing more to say to it
    return found["exit_code"]


def _hosts(args) -> List[hosts.Host]:
    try:
        if args.hostfile is not None:
            return hosts.read_hostfile(args.hostfile)
        return hosts.parse_hosts(args.hosts or "localhost:1")
    except hosts.HostError as error:
        return fail(str(error))


def examine(args, listed: List[hosts.Host], interfaces: Optional[List[str]]) -> dict:
    """Looks at everything and judges it; returns the report as an object."""
    from ..command_line.check_build import version

    began = time.monotonic()
    tell = (lambda line: print(line, file=sys.stderr, flush=True)) if sys.stderr.isatty() else (lambda line: None)
    # ssh gives up before we do, because it can say why.
    options = SshOptions(args.ssh_port, args.ssh_identity_file, args.ssh_accept_new, max(1, args.start_timeout // 2))
    environment = launch.summary(os.environ)
    with Examination(listed, options, interfaces, args.start_timeout, tell) as examination:
        examination.look()
        examination.connect()
        if not args.fast:
            examination.measure()
    alone = len(examination.probes) == 1
    engine = _try_engine(examination.probes[0]) if alone else None
    findings = _judge(examination, interfaces, environment, engine)
    return report.as_object(
        version(),
        time.monotonic() - began,
        examination.probes,
        examination.links,
        examination.bandwidths,
        engine,
        environment,
        findings,
    )


def _try_engine(probe) -> Optional[dict]:
    """None if it is known already that it cannot work."""
    view = (probe.facts or {}).get("rank", {})
    if view.get("libhvd", {}).get("problem", "unknown"):
        return None
    from .engine import try_engine

    return try_engine()


def _judge(
    examination: Examination, interfaces: Optional[List[str]], environment: dict, engine: Optional[dict]
) -> List[judge.Finding]:
    probes = examination.probes
    size = sum(probe.slots for probe in probes)
    findings: List[judge.Finding] = []
    for probe in probes:
        findings += _judge_host(probe, size, len(probes) > 1, environment["protection"]["cpu_operations"])
    facts = {probe.name: probe.facts for probe in probes if probe.facts is not None}
    ranked = {probe.name: probe.facts for probe in probes if probe.facts is not None and probe.slots}
    findings += judge_all.versions(facts)
    findings += judge_all.interfaces(interfaces, ranked)
    findings += judge_all.shared_addresses(facts)
    findings += judge_all.links(examination.links, ranked)
    gone = {probe.name for probe in probes if probe.failure is not None}
    findings += judge_all.bandwidth([one for one in examination.bandwidths if not {one["from"], one["to"]} & gone])
    findings += judge_all.protection(environment["protection"], len(probes) > 1)
    findings.append(judge_all.launch(environment["launch"]))
    if engine is not None:
        findings.append(judge_all.engine(engine))
    return findings


def _judge_host(probe, size: int, several: bool, operations: str) -> List[judge.Finding]:
    name, facts = probe.name, probe.facts
    findings = []
    if not probe.local:
        failure = probe.failure if facts is None else None
        findings.append(judge.ssh(name, failure, probe.connect_seconds, probe.said))
    elif facts is None:
        findings.append(
            judge.Finding(
                "host", judge.FAILED, name, probe.failure, f"see what this says: {sys.executable} -I -S -c pass"
            )
        )
    if facts is None:
        return findings
    if probe.failure is not None:
        findings.append(
            judge.Finding(
                "host",
                judge.FAILED,
                name,
                f"went away meanwhile: {probe.failure}",
                f"see that {name} and its network stay up, then try again",
            )
        )
    findings += judge.software(name, facts)
    findings += judge.limits(name, facts, probe.slots, size)
    findings += [judge.shared_memory(name, facts), judge.names(name, facts)]
    measured = judge.clock(name, probe.clock)
    if measured is not None:
        findings.append(measured)
    if several and probe.slots:
        findings += judge.addresses(name, facts)
    return findings + judge.libraries(name, facts, operations)
