# SPDX-License-Identifier: Apache-2.0
"""The tables of a report: groups (fusion), the costliest tensors, the bandwidth that operations reach."""

from collections import defaultdict
from statistics import mean, median
from typing import Dict, List, NamedTuple, Tuple

from .records import Operation
from .shares import last_arrivals
from .timeline import Way, union

COSTLIEST = 10
# Bytes that a rank sends in a ring of n ranks for each byte of its tensor; other kinds have no such rate.
_RING = {"allreduce": 2.0, "reducescatter": 1.0}


class GroupRow(NamedTuple):
    """Groups of one range of sizes, on the lowest rank. Times are nanoseconds of the data phase."""

    least: int  # bytes
    most: int
    groups: int
    operations: float  # of a group, on average
    bytes: int  # of all groups
    time: float  # of a group, median
    rate: float  # bytes of tensors per second


class TensorRow(NamedTuple):
    """One name. Times are nanoseconds per step, the mean over ranks."""

    name: str
    kind: str
    dtype: str
    shape: str
    bytes: int
    count: float  # per step
    time: float  # from the last rank's submission to the end
    waited: float  # from a rank's submission to the last rank's
    last: str  # who came last most often, and how often


class Bandwidth(NamedTuple):
    """Of one kind of operation."""

    kind: str
    bytes_per_step: float
    time_per_step: float  # ns in which at least one such operation moved data
    algorithm: float  # bytes of tensors per second while they move
    link: float  # bytes per second that each rank sends, if the ranks form a ring; 0 if that says nothing


def group_rows(operations: List[Operation]) -> List[GroupRow]:
    """The groups of a rank's operations by size: classes are powers of four. What travels with messages is no group."""
    groups: Dict[Tuple, Operation] = {}
    counts: Dict[Tuple, int] = defaultdict(int)
    for operation in operations:
        key = _group(operation)
        groups[key] = operation
        counts[key] += 1
    classes: Dict[int, List[Tuple]] = defaultdict(list)
    for key, operation in groups.items():
        if _size(operation) > 0 and operation.ended > operation.begun:
            classes[(_size(operation).bit_length() - 1) // 2].append(key)
    rows = []
    for number, keys in sorted(classes.items()):
        sizes = [_size(groups[key]) for key in keys]
        times = [groups[key].ended - groups[key].begun for key in keys]
        count = mean(max(counts[key], groups[key].group_operations) for key in keys)
        rows.append(
            GroupRow(4**number, 4 ** (number + 1), len(keys), count, sum(sizes), median(times), sum(sizes) * 1e9 / max(1, sum(times)))
        )
    return rows


def tensor_rows(ways: Dict[int, Way], inside: Dict[int, List[Operation]], steps: int) -> List[TensorRow]:
    """The names on which the job spends the most time, waiting for ranks included. ``inside``: the operations that count, by rank."""
    arrivals = last_arrivals(ways)
    by_name: Dict[Tuple, List[Tuple[int, Operation]]] = defaultdict(list)
    for rank, operations in inside.items():
        for operation in operations:
            by_name[operation.key[0], operation.kind, operation.label].append((rank, operation))
    lasts = _lasts(ways, arrivals)
    rows = []
    for (_, kind, name), operations in by_name.items():
        ranks = len({rank for rank, _ in operations})
        first = operations[0][1]
        time = sum(max(0, o.ended - arrivals[o.key]) for _, o in operations) / ranks / steps
        waited = sum(arrivals[o.key] - o.submitted for _, o in operations) / ranks / steps
        who: Dict[int, int] = defaultdict(int)
        for key in {o.key for _, o in operations}:
            who[lasts[key]] += 1
        worst = max(who, key=lambda rank: who[rank])
        last = f"rank {worst} ({100 * who[worst] / sum(who.values()):.0f} %)"
        shape = "×".join(map(str, first.shape)) if first.shape else ""
        count = len(operations) / ranks / steps
        rows.append(TensorRow(name, kind, first.dtype or "", shape, first.bytes, count, time, waited, last))
    return sorted(rows, key=lambda row: -(row.time + row.waited))[:COSTLIEST]


def bandwidths(operations: List[Operation], members: int, steps: int) -> List[Bandwidth]:
    """Of the kinds of a rank's operations that carry bytes; the busiest first."""
    kinds: Dict[str, List[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.bytes and operation.ended > operation.begun:
            kinds[operation.kind].append(operation)
    rows = []
    for kind, of_kind in kinds.items():
        total = sum(operation.bytes for operation in of_kind)
        spans = union([(operation.begun, operation.ended) for operation in of_kind])
        time = sum(end - begin for begin, end in spans)
        rate = total * 1e9 / max(1, time)
        link = rate * _RING.get(kind, 0.0) * (members - 1) / members
        rows.append(Bandwidth(kind, total / steps, time / steps, rate, link))
    return sorted(rows, key=lambda row: -row.time_per_step)


def _lasts(ways: Dict[int, Way], arrivals: Dict) -> Dict[Tuple[int, int], int]:
    found = {}
    for rank, way in ways.items():
        for operation in way.operations:
            if operation.submitted == arrivals[operation.key]:
                found[operation.key] = rank
    return found


def _group(operation: Operation) -> Tuple:
    return (operation.group, 0) if operation.group else operation.key


def _size(operation: Operation) -> int:
    return operation.group_bytes if operation.group else operation.bytes
