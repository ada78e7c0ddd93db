# SPDX-License-Identifier: Apache-2.0
"""One sentence: which ranks of a running job are waited for, by whom, since when."""

from typing import Dict, List

from . import words


def sentence(rows: List[Dict]) -> str:
    """``rows``: facts of each living process, with ``label``, its number among the ranks; None for a worker that waits for a place."""
    rows = [row for row in rows if row["label"] is not None]
    waits = [row for row in rows if row["flight"] and row["flight"]["now"] and row["flight"]["now"]["since"] >= words.NOTABLE]
    if not waits:
        return _without_waits(rows)
    groups: Dict[tuple, List[Dict]] = {}
    for row in waits:
        now = row["flight"]["now"]
        groups.setdefault((now["set"], now["kind"], now["name"], now["planned"]), []).append(row)
    if len(groups) > 1 and not any(row not in waits for row in rows):
        return "the ranks wait for each other: " + "; ".join(_where(group) for group in groups.values())
    longest = max(groups.values(), key=lambda group: max(row["flight"]["now"]["since"] for row in group))
    now = longest[0]["flight"]["now"]
    awaited = _awaited(longest, rows)
    since = words.seconds(max(row["flight"]["now"]["since"] for row in longest))
    who = words.ranks(row["label"] for row in longest)
    have = "has" if len(longest) == 1 else "have"
    if not awaited:
        return f"{who} {have} waited {since} in {words.operation(now)}"
    told = "; ".join(_told(row) for row in awaited[:3])
    more = f", and {len(awaited) - 3} more" if len(awaited) > 3 else ""
    return f"{who} {have} waited {since} in {words.operation(now)} for {words.ranks(row['label'] for row in awaited)}: {told}{more}"


def _awaited(waiting: List[Dict], rows: List[Dict]) -> List[Dict]:
    now = waiting[0]["flight"]["now"]
    if now["planned"]:
        wanted = {row["flight"]["now"]["waited_for"] for row in waiting}
        return [row for row in rows if row["label"] in wanted and row not in waiting] or [row for row in rows if row["label"] in wanted]
    if now["set"] != 0:
        return []  # nobody here knows who belongs to the set
    return [row for row in rows if row not in waiting]


def _told(row: Dict) -> str:
    now = row["flight"] and row["flight"]["now"]
    in_another = f", in {words.operation(now)} for {words.seconds(now['since'])}" if now else ""
    return f"rank {row['label']} {words.state(row)}{in_another}"


def _where(group: List[Dict]) -> str:
    return f"{words.ranks(row['label'] for row in group)} in {words.operation(group[0]['flight']['now'])}"


def _without_waits(rows: List[Dict]) -> str:
    outside = [row["label"] for row in rows if not row["called_init"]]
    odd = [row for row in rows if row["state"] in ("stopped", "blocked in the kernel", "held by a debugger")]
    if odd:
        return "no rank waits for another one yet; " + "; ".join(f"rank {row['label']} {words.state(row)}" for row in odd[:3])
    if outside and len(outside) < len(rows):
        return f"{words.ranks(outside)} {'has' if len(outside) == 1 else 'have'} not called init yet"
    return "no rank waits for another one" if not outside else "no rank has called init yet"
