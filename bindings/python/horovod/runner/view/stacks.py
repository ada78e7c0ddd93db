# SPDX-License-Identifier: Apache-2.0
"""What each rank is doing, with its stack; ranks with the same stack stand together."""

import textwrap
from typing import Dict, List

from . import table, words


def listing(answer: Dict, width: int = table.WIDTH) -> List[str]:
    """The lines of `horovodrun stacks`; ``answer`` as for the table."""
    groups: Dict[tuple, List[Dict]] = {}
    for row in table.living(answer):
        stack = row["stack"] or {}
        same = tuple(stack.get("lines", ())) or (row["rank"],)
        groups.setdefault(same, []).append(row)
    lines = []
    for group in groups.values():
        for row in group:
            lines += textwrap.wrap(about(row), width, subsequent_indent="  ")
        lines += stack_of(group[0])
    return lines


def about(row: Dict) -> str:
    """A sentence about a rank."""
    name = f"rank {row['label']}" if row["label"] is not None else f"worker {row['rank']}"
    return f"{name} on {row['host']} (pid {row['process']}, {words.plain(row['name'])}) {words.state(row)}; {words.doing(row)}"


def stack_of(row: Dict) -> List[str]:
    """The stack of a rank, indented, or why there is none."""
    stack = row["stack"]
    if stack is None:
        return []
    lines = [f"  {words.plain(stack['why'])}"] if stack.get("why") else []
    if "lines" in stack:
        left_out = f"; {stack['left_out']} more {'thread' if stack['left_out'] == 1 else 'threads'}" if stack["left_out"] else ""
        lines.append(f"  {stack['language']} stack (whole: {row['host']}:{stack['file']}{left_out})")
        lines += [f"    {words.plain(line)}" for line in stack["lines"]]
    return lines
