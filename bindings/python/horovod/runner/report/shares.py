# SPDX-License-Identifier: Apache-2.0
"""How each rank spends its steps: computing, waiting for others, moving data.

What the records can tell, and what they cannot:

- compute: nothing of the rank is in flight, so the program does something of its own (or sleeps, or loads data);
- overlap: something is in flight, and the program goes on to another submission. This is the least that overlaps: whether the program
  computes after its last submission or waits for the result cannot be seen;
- own: operations of process sets with one member, which no other rank can delay, and what the program does between them
  in a burst (timeline.py);
- waiting: nothing overlaps, and the rank waits until the others have announced the operation;
- starving: its data phase has begun, and nothing can be done until a peer's bytes come, because the peer or the network is slow;
- moving: the rest of the time with something in flight: bytes move, tensors are reduced and copied, groups queue behind one another.
"""

from bisect import bisect_left
from statistics import mean
from typing import Dict, List, NamedTuple, Tuple

from .records import Job, Operation
from .steps import Steps
from .timeline import Cover, Way, bursts


class Shares(NamedTuple):
    """Nanoseconds of one step, or of the mean step, of one rank."""

    compute: float
    overlap: float
    own: float
    waiting: float
    starving: float
    moving: float

    @property
    def total(self) -> float:
        """The length of the step."""
        return sum(self)


def shares(job: Job, ways: Dict[int, Way], steps: Steps) -> Dict[int, List[Shares]]:
    """For each rank, its shares of each step."""
    arrivals = last_arrivals(ways)
    return {rank: _of_rank(way, steps.spans[rank], arrivals) for rank, way in ways.items()}


def average(rows: List[Shares]) -> Shares:
    """The mean step."""
    return Shares(*map(mean, zip(*rows)))


def last_arrivals(ways: Dict[int, Way]) -> Dict[Tuple[int, int], int]:
    """For each operation, when its last member submitted it."""
    found: Dict[Tuple[int, int], int] = {}
    for way in ways.values():
        for operation in way.operations:
            found[operation.key] = max(found.get(operation.key, 0), operation.submitted)
    return found


def _of_rank(way: Way, spans: List[Tuple[int, int]], arrivals: Dict) -> List[Shares]:
    flying = [(o.submitted, o.ended) for o in way.operations]
    own = bursts(way.own, way.starts())
    busy = Cover(flying)
    any_operation = Cover(flying + own)
    overlapping = [(gap.begin, gap.begin + gap.overlap) for gap in way.gaps if gap.overlap]
    overlap = Cover(overlapping)
    waiting_and_overlap = Cover(_waiting(way.operations, arrivals) + overlapping)
    starts = way.starts()
    rows = []
    for begin, end in spans:
        shared, both = busy.within(begin, end), overlap.within(begin, end)
        alone = waiting_and_overlap.within(begin, end) - both  # waits while nothing overlaps
        chosen = way.operations[bisect_left(starts, begin) : bisect_left(starts, end)]
        in_data = min(_waited_in_data(chosen), shared - alone - both)
        # A wait in the data phase has a length, but no place: it is thinned by what overlaps and by what waits already.
        in_data = max(0, in_data)
        lone = any_operation.within(begin, end) - shared
        rows.append(
            Shares(
                compute=max(0, end - begin - any_operation.within(begin, end)),
                overlap=both,
                own=lone,
                waiting=alone,
                starving=in_data,
                moving=max(0, shared - both - alone - in_data),
            )
        )
    return rows


def _waiting(operations: List[Operation], arrivals: Dict) -> List[Tuple[int, int]]:
    """The spans from a rank's submission to the last member's."""
    return [(o.submitted, min(arrivals[o.key], o.ended)) for o in operations if arrivals[o.key] > o.submitted]


def _waited_in_data(operations: List[Operation]) -> int:
    """Of all groups of these operations, each once."""
    return sum({(o.group or -o.key[1], o.begun): o.waited for o in operations}.values())
