# SPDX-License-Identifier: Apache-2.0
"""The report of `horovodrun doctor`: tables and lines for people, one JSON object for programs (see docs/doctor.md)."""

import textwrap
from typing import Dict, List, Optional, Sequence

from .judge import FAILED, OK, WARNING, Finding, size_text

WIDTH = 110
_COLOURS = {OK: "32", WARNING: "33", FAILED: "31"}
_LEVEL_WIDTH = 9
# Wider tables are no help; the connections are in the lines below in any case.
_MOST_COLUMNS = 9


def as_object(
    version: str,
    seconds: float,
    probes,
    links: List[dict],
    bandwidths: List[dict],
    engine: Optional[dict],
    environment: dict,
    findings: List[Finding],
) -> dict:
    """The report as one object; its keys are documented and stay."""
    return {
        "format": 1,
        "horovod": version,
        "seconds": round(seconds, 3),
        "exit_code": exit_code(findings),
        "summary": {level: sum(finding.level == level for finding in findings) for level in (OK, WARNING, FAILED)},
        "hosts": [_host(probe) for probe in probes],
        "links": links,
        "bandwidth": bandwidths,
        "engine": engine,
        "environment": environment,
        "findings": [finding._asdict() for finding in findings],
    }


def exit_code(findings: List[Finding]) -> int:
    return int(any(finding.level == FAILED for finding in findings))


def _host(probe) -> dict:
    return {
        "name": probe.name,
        "local": probe.local,
        "slots": probe.slots,
        "failure": probe.failure,
        "connect_seconds": probe.connect_seconds,
        "clock": probe.clock,
        "facts": probe.facts,
    }


def as_text(report: dict, colours: bool) -> str:
    """The report for a terminal: tables of facts, then a line for every finding, the worst last."""
    parts = [_hosts_table(report["hosts"])]
    names = [host["name"] for host in report["hosts"] if host["slots"] and host["facts"]]
    if 1 < len(names) <= _MOST_COLUMNS:
        title = "shortest round trip, us (from the row's host to the column's)"
        parts.append(_matrix(title, names, _round_trips(report["links"])))
    if report["bandwidth"]:
        if len(report["bandwidth"]) > len(names) or len(names) == 2:
            parts.append(_matrix("bandwidth, Gbit/s", names, _rates(report["bandwidth"])))
        else:
            parts.append(_range(report["bandwidth"]))
    findings = _together([Finding(**finding) for finding in report["findings"]], len(report["hosts"]))
    parts.append("\n".join(_line(finding, colours) for finding in sorted(findings, key=_rank)))
    parts.append(_verdict(report))
    return "\n\n".join(parts)


def _together(findings: List[Finding], hosts: int) -> List[Finding]:
    """The same finding about several hosts becomes one line."""
    names: Dict[Finding, List[str]] = {}
    for finding in findings:
        names.setdefault(finding._replace(host=None), []).append(finding.host or "")
    return [
        finding._replace(host="all hosts" if 1 < hosts == len(having) else ", ".join(filter(None, having)) or None)
        for finding, having in names.items()
    ]


def _rank(finding: Finding) -> int:
    return (OK, WARNING, FAILED).index(finding.level)


def _hosts_table(hosts: List[dict]) -> str:
    rows = [("host", "slots", "kernel", "glibc", "Python", "horovod", "libhvd", "cores", "memory", "load", "clock")]
    for host in hosts:
        facts = host["facts"]
        if facts is None:
            rows.append((host["name"], str(host["slots"]), "not reached"))
            continue
        view = facts["rank"]
        clock = "-" if host["clock"] is None else f"{host['clock']['offset']:+.3f} s"
        rows.append(
            (
                host["name"],
                str(host["slots"]),
                facts["kernel"].partition("-")[0],
                facts["glibc"] or "-",
                facts["python"],
                view.get("horovod", {}).get("version") or "-",
                view.get("libhvd", {}).get("version") or "-",
                str(facts["cores"]),
                size_text(facts["memory"].get("total", 0)),
                f"{facts['load']:.1f}",
                clock,
            )
        )
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows if len(row) > column) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join(line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in lines)


def _matrix(title: str, names: List[str], cells: Dict[tuple, str]) -> str:
    short = {name: name if len(name) <= 9 else name[:8] + "~" for name in names}
    rows = [("", *(short[name] for name in names))]
    rows += [
        (short[row], *("." if row == column else cells.get((row, column), "-") for column in names)) for row in names
    ]
    return f"{title}\n" + _table(rows)


def _round_trips(links: List[dict]) -> Dict[tuple, str]:
    best: Dict[tuple, float] = {}
    cells = {(link["from"], link["to"]): "none" for link in links}
    for link in links:
        if link["state"] == "connected":
            key = link["from"], link["to"]
            best[key] = min(best.get(key, link["round_trip"]), link["round_trip"])
    return {**cells, **{key: f"{value * 1e6:.0f}" for key, value in best.items()}}


def _rates(bandwidths: List[dict]) -> Dict[tuple, str]:
    return {(one["from"], one["to"]): _gigabits(one["bytes_per_second"]) for one in bandwidths}


def _range(bandwidths: List[dict]) -> str:
    """Of many hosts, each of which has sent to one other."""
    rates = [
        (one["bytes_per_second"], f"{one['from']} to {one['to']}") for one in bandwidths if one["bytes_per_second"]
    ]
    if not rates:
        return "bandwidth: no result"
    (slowest, pair), (fastest, _) = min(rates), max(rates)
    return f"bandwidth of each host to the next, Gbit/s: {_gigabits(slowest)} ({pair}) to {_gigabits(fastest)}"


def _gigabits(rate: Optional[float]) -> str:
    return "-" if rate is None else f"{rate * 8e-9:.3g}"


def _line(finding: Finding, colours: bool) -> str:
    level = finding.level.ljust(_LEVEL_WIDTH)
    where = f"{finding.host}: " if finding.host else ""
    text = textwrap.fill(
        f"{finding.check}: {where}{finding.fact}",
        WIDTH,
        initial_indent=" " * _LEVEL_WIDTH,
        subsequent_indent=" " * (_LEVEL_WIDTH + 2),
        break_on_hyphens=False,
    )
    text = level + text[_LEVEL_WIDTH:]
    if colours:
        text = f"\x1b[{_COLOURS[finding.level]}m{finding.level}\x1b[0m" + text[len(finding.level) :]
    if finding.advice:
        text += "\n" + textwrap.fill(
            finding.advice,
            WIDTH,
            initial_indent=" " * _LEVEL_WIDTH + "-> ",
            subsequent_indent=" " * (_LEVEL_WIDTH + 3),
            break_on_hyphens=False,
        )
    return text


def _verdict(report: dict) -> str:
    count, hosts = report["summary"], [host for host in report["hosts"] if host["slots"]]
    where = f"{len(hosts)} host{'' if len(hosts) == 1 else 's'}"
    verdict = f"a job will not run on {where}" if report["exit_code"] else f"a job will run on {where}"
    return (
        f"{verdict}: {count[FAILED]} failed, {count[WARNING]} warned, {count[OK]} ok, after {report['seconds']:.1f} s"
    )
