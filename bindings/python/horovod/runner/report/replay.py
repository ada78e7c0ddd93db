# SPDX-License-Identifier: Apache-2.0
"""How long the job would have taken if one rank had been like the others: the job is played again from its records.

Every event keeps what it depended on. A submission comes a gap after that from which the rank's program went on (timeline.py). A group of
operations is agreed a little after the last member's last submission, begins when the rank's group before has ended, and ends after the
time that its data took. Played without a change, all events come out at the times at which they came. With a change (other gaps for
one rank, data phases that are shorter), the later ones move as they would have.
"""

from statistics import median
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from .records import Key, Operation
from .timeline import ALL, Way

GapOf = Callable[[int, Operation], float]  # (rank, operation) -> nanoseconds
# (rank, operation) -> nanoseconds from the last submission to the agreement, and of the data phase; no more than recorded counts
NetworkOf = Callable[[int, Operation], Tuple[float, float]]


class _End(NamedTuple):
    at: int
    rank: int
    keys: Tuple[Key, ...]
    operation: Operation  # the first of the group
    number: int  # of the rank's groups, in the order in which they began
    before: int  # number of the group that this one may have waited for; -1: none
    before_at: int  # when that ended


class Replay:
    """Plays a job. ``ways`` has one for each rank; ``span``: (begin, end) of the time that counts, everything without it."""

    def __init__(self, ways: Dict[int, Way], span: Optional[Tuple[int, int]] = None):
        self.ways = ways
        self._span = span or (0, 1 << 63)
        self._arrivals: Dict[Key, int] = {}
        for way in ways.values():
            for operation in way.operations:
                self._arrivals[operation.key] = max(self._arrivals.get(operation.key, 0), operation.submitted)
        self._events = self._ordered()

    def length(self, gaps: Optional[GapOf] = None, network: Optional[NetworkOf] = None) -> float:
        """Nanoseconds that the span takes with these gaps and phases in place of the recorded ones: from the last end before it to the last
        end in it."""
        submitted: Dict[int, List[float]] = {rank: [0.0] * len(way.operations) for rank, way in self.ways.items()}
        arrived: Dict[Key, float] = {}
        idle_from = {rank: float(way.gaps[0].begin) for rank, way in self.ways.items() if way.gaps}
        ends: Dict[Tuple[int, int], float] = {}  # by rank and number
        done: Dict[Tuple[int, Key], float] = {}
        last = float(min(way.gaps[0].begin for way in self.ways.values() if way.gaps))
        begin = None
        for at, _, rank, what in self._events:
            if begin is None and at > self._span[0]:
                begin = last
            if at > self._span[1]:
                break
            way = self.ways[rank]
            if isinstance(what, int):
                operation, gap = way.operations[what], way.gaps[what]
                start = submitted[rank][what - 1] if what else float(gap.begin)
                if gap.waits == ALL:
                    start = max(start, idle_from[rank])
                elif gap.after is not None:
                    start = max(start, done[rank, gap.after])
                time = start + (gap.length if gaps is None else gaps(rank, operation))
                submitted[rank][what] = time
                arrived[operation.key] = max(arrived.get(operation.key, 0.0), time)
                continue
            end = self._play_end(what, arrived, ends.get((rank, what.before), 0.0), network)
            ends[rank, what.number] = end
            done.update(((rank, key), end) for key in what.keys)
            idle_from[rank] = max(idle_from[rank], end)
            last = max(last, end)
        return last - (last if begin is None else begin)

    def without(self, rank: int, network: Optional[NetworkOf] = None) -> float:
        """The length with the gaps of this rank replaced by the median of the other ranks' for the same operation."""
        typical: Dict[Key, float] = {}
        for operation in self.ways[rank].operations:
            others = [way.gap_of[operation.key] for other, way in self.ways.items() if other != rank and operation.key in way.gap_of]
            own = self.ways[rank].gap_of[operation.key]
            alike = [gap.length for gap in others if gap.waits == own.waits] or [gap.length for gap in others]
            typical[operation.key] = median(alike) if alike else own.length

        def gaps(which: int, operation: Operation) -> float:
            return typical[operation.key] if which == rank else self.ways[which].gap_of[operation.key].length

        return self.length(gaps, network)

    def _play_end(self, what: _End, arrived: Dict[Key, float], before: float, network: Optional[NetworkOf]) -> float:
        operation = what.operation
        complete = max(self._arrivals[key] for key in what.keys)
        agreed = max(complete, operation.agreed)
        begun = max(agreed, operation.begun)
        agreement, length = float(agreed - complete), float(what.at - begun)
        if network is not None:
            agreement, length = map(min, (agreement, length), network(what.rank, operation))
        begin = max(max(arrived[key] for key in what.keys) + agreement, before) + begun - max(agreed, what.before_at)
        return begin + length

    def _ordered(self) -> List[Tuple[int, int, int, object]]:
        events: List[Tuple[int, int, int, object]] = []
        for rank, way in self.ways.items():
            events += [(operation.submitted, 1, rank, number) for number, operation in enumerate(way.operations)]
            events += [(end.at, 0, rank, end) for end in self._ends(rank, way)]
        return sorted(events, key=lambda event: event[:3])

    def _ends(self, rank: int, way: Way) -> List[_End]:
        groups: Dict[Tuple[int, int], List[Operation]] = {}
        for number, operation in enumerate(way.operations):
            groups.setdefault((1, operation.group) if operation.group else (0, number), []).append(operation)
        found: List[_End] = []
        for operations in sorted(groups.values(), key=lambda group: (group[0].begun, group[0].ended)):
            # Clocks of two hosts may differ by more than an operation takes: nothing ends before its last member has come.
            at = max([o.ended for o in operations] + [self._arrivals[o.key] + 1 for o in operations])
            keys = tuple(o.key for o in operations)
            before = next((end for end in reversed(found[-8:]) if end.at <= operations[0].begun), None)
            number, before_at = (before.number, before.at) if before else (-1, 0)
            found.append(_End(at, rank, keys, operations[0], len(found), number, before_at))
        return found
