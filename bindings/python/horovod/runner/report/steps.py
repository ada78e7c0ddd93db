# SPDX-License-Identifier: Apache-2.0
"""Where the steps of a training begin, found from operations that come again and again.

The rule: write the operations in which all ranks take part as a row, in the order of rank 0 (the lowest rank that left records), each as
what does not change from step to step: process set, kind, name (unnamed operations without their number) and bytes. The shortest
distance at which nearly all of the row repeats itself is the number of operations of a step. A step begins where the ranks spend the
longest time before an operation, since a step of a training begins with loading data and computing. If no distance fits, because the
order of submission changes, a step begins whenever an operation comes again that comes as often as most others do. If that does not fit
either, the time is cut into equal slices, and the report says so.
"""

from collections import Counter
from operator import eq
from statistics import median
from typing import Dict, List, Optional, Sequence, Tuple

from .records import Job
from .timeline import Way

SLICES = 50
_ALIKE = (0.97, 0.85)  # shares of the row that must repeat itself; the first that some distance reaches counts
_LEAST = 3  # steps


class Steps:
    """``spans``: for each rank the (begin, end) of each step in nanoseconds; all ranks have the same number of steps."""

    def __init__(self, spans: Dict[int, List[Tuple[int, int]]], operations: int, rule: str):
        self.spans, self.operations, self.rule = spans, operations, rule

    @property
    def found(self) -> bool:
        """Whether these are steps, and not slices of time."""
        return self.operations > 0

    @property
    def count(self) -> int:
        """The number of steps."""
        return len(next(iter(self.spans.values())))

    @property
    def length(self) -> float:
        """The usual length of a step: the median over all steps of the longest rank. Nanoseconds."""
        return median(max(spans[number][1] - spans[number][0] for spans in self.spans.values()) for number in range(self.count))

    @property
    def span(self) -> Tuple[int, int]:
        """From when the last rank begins the first step to when the last rank ends the last one."""
        return max(spans[0][0] for spans in self.spans.values()), max(spans[-1][1] for spans in self.spans.values())

    @property
    def total(self) -> int:
        """Nanoseconds of all steps together."""
        return self.span[1] - self.span[0]


def find_steps(job: Job, ways: Dict[int, Way]) -> Steps:
    """The steps of a job. ``ways`` has one for each rank of the job."""
    first = next(iter(ways.values()))
    everybody = [operation for operation in first.operations if len(job.members[operation.key[0]]) == len(job.ranks)]
    row = _numbered([operation.signature for operation in everybody])
    period = _period(row)
    if period:
        anchors, rule = _anchors(row, period, [_gap_before(ways, o.key) for o in everybody]), "repeats itself"
    else:
        anchors, rule = _returns(row), "comes again"
    anchors = [index for index in anchors if index > 0]  # nobody knows what was before the first operation
    if len(anchors) <= _LEAST:
        return _slices(ways)
    keys = [everybody[index].key for index in anchors]
    spans = {}
    for rank, way in ways.items():
        begins = [way.gap_of[key].begin for key in keys]
        spans[rank] = list(zip(begins, begins[1:]))
    operations = round(median(b - a for a, b in zip(anchors, anchors[1:])))
    name = everybody[anchors[0]].label
    if rule == "repeats itself":
        text = f"the row of operations repeats itself every {operations}; a step begins before {name}"
    else:
        text = f"the order of operations changes; a step begins whenever {name} comes again"
    return Steps(spans, operations, text)


def _numbered(signatures: Sequence) -> List[int]:
    numbers: Dict = {}
    return [numbers.setdefault(signature, len(numbers)) for signature in signatures]


def _period(row: List[int]) -> Optional[int]:
    """The shortest distance at which the row repeats itself."""
    for alike in _ALIKE:
        for distance in range(1, len(row) // _LEAST + 1):
            compared = len(row) - distance
            probe = min(compared, 256)  # most distances fail here already
            if sum(map(eq, row[:probe], row[distance:])) < (alike - 0.1) * probe:
                continue
            if sum(map(eq, row[:compared], row[distance:])) >= alike * compared:
                return distance
    return None


def _gap_before(ways: Dict[int, Way], key) -> int:
    return max(way.gap_of[key].length for way in ways.values())


def _anchors(row: List[int], period: int, gaps: List[int]) -> List[int]:
    """The indexes in the row at which steps begin."""
    counts = Counter(row)
    usual = len(row) / period
    # Unique within a step, so that an operation that came in between moves nothing.
    unique = {number for number, count in counts.items() if count <= 1.3 * usual}
    waits: Dict[int, List[int]] = {}
    for index, number in enumerate(row):
        if number in unique and counts[number] >= 0.7 * usual:
            waits.setdefault(number, []).append(gaps[index])
    if not waits:
        phase = max(range(period), key=lambda phase: median(gaps[phase::period]))
        return list(range(phase, len(row), period))
    chosen = max(waits, key=lambda number: median(waits[number]))
    return [index for index, number in enumerate(row) if number == chosen]


def _returns(row: List[int]) -> List[int]:
    """Indexes of the operation that comes as often as most others do, if at least two thirds of the row are such operations."""
    counts = Counter(row)
    if not counts:
        return []
    usual, share = Counter({count: count * kinds for count, kinds in Counter(counts.values()).items()}).most_common(1)[0]
    if share < len(row) * 2 / 3:
        return []
    chosen = next(number for number in row if counts[number] == usual)
    return [index for index, number in enumerate(row) if number == chosen]


def _slices(ways: Dict[int, Way]) -> Steps:
    spans = [(way.gaps[0].begin, max(o.ended for o in way.operations)) for way in ways.values() if way.operations]
    begin, end = max(b for b, _ in spans), min(e for _, e in spans)
    edges = [begin + (end - begin) * number // SLICES for number in range(SLICES + 1)]
    rule = f"no operation comes again in an order that could be steps; the time is cut into {SLICES} equal slices"
    return Steps({rank: list(zip(edges, edges[1:])) for rank in ways}, 0, rule)
