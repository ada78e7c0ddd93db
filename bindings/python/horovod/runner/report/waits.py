# SPDX-License-Identifier: Apache-2.0
"""Who is waited for: how long the others would have gone on sooner if one rank had come with the last but one."""

from collections import defaultdict
from typing import Dict, List, NamedTuple, Tuple

from .records import Key
from .steps import Steps
from .timeline import Cover, Way


class WaitedFor(NamedTuple):
    """Of one rank. ``time``: ns per step in which it alone had not announced an operation; ``last``: share of operations it came last to;
    ``data``: ns per step in which other ranks could not move data until it acted, 0 where the records do not tell."""

    rank: int
    time: float
    last: float
    data: float


def waited_for(ways: Dict[int, Way], steps: Steps) -> List[WaitedFor]:
    """One row for each rank, in the order of ranks."""
    arrivals: Dict[Key, List[Tuple[int, int]]] = defaultdict(list)
    for rank, way in ways.items():
        for operation in way.operations:
            arrivals[operation.key].append((operation.submitted, rank))
    alone: Dict[int, List[Tuple[int, int]]] = defaultdict(list)
    for came in arrivals.values():
        came.sort()
        if len(came) > 1:
            alone[came[-1][1]].append((came[-2][0], came[-1][0]))
    data = _in_data(ways)
    rows = []
    for rank in ways:
        begin, end = steps.spans[rank][0][0], steps.spans[rank][-1][1]
        time = Cover(alone[rank]).within(begin, end) / steps.count
        rows.append(WaitedFor(rank, time, len(alone[rank]) / max(1, len(arrivals)), data.get(rank, 0) / steps.count))
    return rows


def _in_data(ways: Dict[int, Way]) -> Dict[int, int]:
    """By the rank that was waited for: of each operation the longest wait of another rank, once for each group."""
    longest: Dict[Tuple[int, Key], int] = {}
    seen = set()
    for rank, way in ways.items():
        for operation in way.operations:
            group = (rank, operation.group or operation.key, operation.begun)
            if operation.waited_for >= 0 and group not in seen:
                seen.add(group)
                key = (operation.waited_for, operation.key)
                longest[key] = max(longest.get(key, 0), operation.waited)
    sums: Dict[int, int] = defaultdict(int)
    for (rank, _), waited in longest.items():
        sums[rank] += waited
    return sums
