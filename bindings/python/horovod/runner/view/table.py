# SPDX-License-Identifier: Apache-2.0
"""The screen of `horovodrun status`: a line for each rank, and a sentence that says who is waited for."""

import textwrap
from typing import Dict, List

from . import blame, words

WIDTH = 80
_SHORT = {"held by a debugger": "debugged", "blocked in the kernel": "blocked"}
_MOST_LINES = 50  # of ranks; from then on, ranks that do the same share a line


def screen(answer: Dict, width: int = WIDTH) -> List[str]:
    """``answer``: what the launcher has found, see job/desk.py."""
    rows = living(answer)
    lines = [_title(answer), *table(rows, width)]
    lines += [f"host {host['host']} has not answered in time: it is busy, or cannot be reached" for host in answer["hosts"] if host["ranks"] is None]
    if answer["ended"]:
        lines += textwrap.wrap("ended: " + "; ".join(answer["ended"]), width)
    if rows:
        lines += textwrap.wrap(f"{blame.sentence(rows)}.", width)
    return lines


def living(answer: Dict) -> List[Dict]:
    """The ranks that live, each with the name of its host."""
    rows = [{**row, "host": host["host"]} for host in answer["hosts"] for row in host["ranks"] or ()]
    return sorted(rows, key=lambda row: (row["label"] is None, row["label"] if row["label"] is not None else row["rank"]))


def _title(answer: Dict) -> str:
    job = answer["job"]
    command = words.cut(words.plain(" ".join(job["command"])), 40)
    count = f"{job['ranks']} {'rank' if job['ranks'] == 1 else 'ranks'}"
    return f"job {job['pid']}: {command}; {count}, {words.seconds(job['seconds'])} old"


def table(rows: List[Dict], width: int) -> List[str]:
    """The lines of the ranks under their heads."""
    cells = [_cells(row) for row in rows]
    for with_host in (True, False):
        if len(cells) > _MOST_LINES:
            cells = _merged(rows, with_host)
    cells.insert(0, ["rank", "host", "pid", "state", "last completed", "ago", "now in", "for"])
    widths = [max(len(line[column]) for line in cells) for column in range(8)]
    widths[0], widths[1] = min(widths[0], 16), min(widths[1], 12)
    rest = max(16, width - sum(widths[:4]) - widths[5] - widths[7] - 7)
    # What one of the two needs less is the other's.
    widths[4], widths[6] = _share(rest, widths[4], widths[6])
    right = (5, 7)
    return [" ".join(words.cut(cell, size).rjust(size) if column in right else words.cut(cell, size).ljust(size)
                     for column, (cell, size) in enumerate(zip(line, widths))).rstrip() for line in cells]


def _share(rest: int, first: int, second: int):
    half = rest // 2
    if first <= half:
        return first, min(second, rest - first)
    if second <= rest - half:
        return min(first, rest - second), second
    return half, rest - half


def _merged(rows: List[Dict], with_host: bool) -> List[List[str]]:
    """A line for all ranks that do the same, with the longest times among them."""
    groups: Dict[tuple, List[Dict]] = {}
    for row in rows:
        _, _, _, state, last, _, now, _ = _cells(row)
        groups.setdefault((row["host"] if with_host else "", state, last, now), []).append(row)
    lines = []
    for (host, state, last, now), group in groups.items():
        hosts = len({row["host"] for row in group})
        numbers = words.ranges(row["label"] for row in group if row["label"] is not None)
        ages = [max((row["flight"][of][key] for row in group if row["flight"] and row["flight"][of]), default=None)
                for of, key in (("last", "ago"), ("now", "since"))]
        ago, since = ("" if age is None else words.short_seconds(age) for age in ages)
        lines.append([numbers, host or f"{hosts} {'host' if hosts == 1 else 'hosts'}", f"{len(group)} ranks", state, last, ago, now, since])
    return lines


def _cells(row: Dict) -> List[str]:
    flight = row["flight"]
    label = str(row["label"]) if row["label"] is not None else f"w{row['rank']}"
    last, ago, now, since = "", "", "", ""
    if flight is None:
        last = "(no records)" if row["called_init"] else "(init not called)"
    else:
        last, ago = (_brief(flight["last"]), words.short_seconds(flight["last"]["ago"])) if flight["last"] else ("none", "")
        if flight["now"]:
            now, since = _brief(flight["now"]), words.short_seconds(flight["now"]["since"])
        elif flight["state"] == 2:
            now = "(left the job)"
    return [label, row["host"], str(row["process"]), _SHORT.get(row["state"], row["state"]), last, ago, now, since]


def _brief(found: Dict) -> str:
    return words.plain(f"{found['kind']} {found['name']}".rstrip())
