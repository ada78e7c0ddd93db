# SPDX-License-Identifier: Apache-2.0
"""The report of an operation that waits for ranks that do not come."""

import textwrap
from typing import Dict, List, Tuple

from . import stacks, table, words

_WIDTH = 110


def report(entry: Dict, others: int, missing: List[int], answer: Dict, most: int) -> List[str]:
    """``entry``: the report of a rank that waits; ``others``: how many more operations wait for the same ranks; ``missing``: the numbers of
    those ranks, of which at most so many are shown; ``answer``: a look at the job with their stacks."""
    rows = table.living(answer)
    waiting = [row["label"] for row in rows if row["flight"] and row["flight"]["now"] and _name(row["flight"]["now"]) == _name(entry)]
    and_others = f" and {others} more" if others else ""
    awaited = words.ranks(entry["missing"])
    if entry["missing_count"] > len(entry["missing"]):
        awaited += f" and {entry['missing_count'] - len(entry['missing'])} more ranks"
    who = f"{words.ranks(waiting)} {'has' if len(waiting) == 1 else 'have'}" if waiting else "ranks have"
    lines = [f"{words.operation(entry)}{and_others}: {who} waited {words.seconds(entry['waited'])} for {awaited}"]
    shown = [row for row in rows if row["rank"] in missing][:most]
    for row in shown:
        lines += textwrap.wrap(stacks.about(row), _WIDTH, initial_indent="  ", subsequent_indent="    ")
        lines += [f"  {line}" for line in stacks.stack_of(row)]
    if not shown:
        lines.append(f"  {words.plain(entry['text'])}")
    elif len(missing) > len(shown):
        lines.append(f"  {len(missing) - len(shown)} more: horovodrun stacks {answer['job']['pid']}")
    return lines


def _name(found: Dict) -> Tuple:
    return found["set"], found["kind"], found["name"]
