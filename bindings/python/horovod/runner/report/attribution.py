# SPDX-License-Identifier: Apache-2.0
"""The verdict: which rank makes the job slower, by how much, and why."""

from statistics import mean, median
from typing import Dict, List, NamedTuple, Optional

from . import facts as kernel
from .causes import BUSY_NEIGHBOUR, GIL_HOG, Cause, of_own_time, small_operations
from .links import link_fault, undisturbed
from .records import Job
from .replay import Replay
from .shares import Shares, average
from .steps import Steps
from .timeline import Way
from .waits import waited_for

_REPLAYED = 8  # ranks
NOTHING = 0.03  # a gain below this share of the time is no finding
_TINY = 10_000  # ns of a step: such a gain is none, whatever share it is


class Finding(NamedTuple):
    """``gain``: nanoseconds per step that the job would save if this rank were like the others; ``share``: of the step."""

    rank: int
    host: str
    cause: Cause
    gain: float
    share: float
    sentence: str


class Gain(NamedTuple):
    """Nanoseconds per step that the job would save if a rank's own time (not its network) were as the others'."""

    rank: int
    time: float
    share: float


def gains(replay: Replay, ways: Dict[int, Way], steps: Steps) -> List[Gain]:
    """For each rank, what the job would gain; 0 for all but the ranks that are waited for the longest, because each costs a replay."""
    length = max(1.0, replay.length())
    longest = sorted(waited_for(ways, steps), key=lambda row: -row.time)[:_REPLAYED]
    found = []
    for rank in ways:
        saved = length - replay.without(rank) if len(ways) > 1 and any(row.rank == rank for row in longest) else 0.0
        found.append(Gain(rank, saved / length * _step(steps), saved / length))
    return found


def findings(job: Job, replay: Replay, steps: Steps, rows: Dict[int, List[Shares]], by_rank: List[Gain]) -> List[Finding]:
    """What slows the job, the most expensive first; empty if no rank stands out. ``by_rank``: what `gains` found."""
    ways = replay.ways
    if len(ways) < 2:
        return []
    length, found = max(1.0, replay.length()), []
    fault = link_fault(job, ways, kernel.links(job, steps))
    best = max(by_rank, key=lambda gain: gain.time)
    if best.share >= NOTHING and best.time >= _TINY:
        cause, share = _own_cause(job, steps, rows, best.rank), best.share
        if cause.name in (BUSY_NEIGHBOUR, GIL_HOG) and fault is None:
            # Who takes the main thread's core also takes it from the library's thread, which has to move the data.
            share = (length - replay.without(best.rank, undisturbed(ways))) / length
        found.append(_finding(job, steps, best.rank, cause, share))
    if fault is not None:
        share = (length - replay.length(network=fault.network)) / length
        if share >= NOTHING:
            found.append(_finding(job, steps, fault.rank, fault.cause, share))
    return sorted(found, key=lambda finding: -finding.gain)


def verdict(found: List[Finding]) -> str:
    """The first sentence of the report."""
    if not found:
        return "No rank stands out: no rank alone makes the steps more than 3 % longer."
    return found[0].sentence


def lateness(rows: Dict[int, List[Shares]], rank: int) -> float:
    """Nanoseconds per step that a rank spends by itself beyond the median of the others."""
    own = {other: mean(row.compute + row.overlap + row.own for row in of) for other, of in rows.items()}
    return own[rank] - median(value for other, value in own.items() if other != rank)


def _own_cause(job: Job, steps: Steps, rows: Dict[int, List[Shares]], rank: int) -> Cause:
    late = lateness(rows, rank)
    averages = {other: average(of) for other, of in rows.items()}
    own = averages[rank].own - median(row.own for other, row in averages.items() if other != rank)
    begin, end = steps.spans[rank][0][0], steps.spans[rank][-1][1]
    alone = [operation for operation in job.own(job.ranks[rank]) if begin <= operation.submitted < end]
    more: Optional[kernel.Facts] = kernel.excess(kernel.facts(job, steps), rank)
    return of_own_time(late, own, small_operations(alone, steps.count), more)


def _step(steps: Steps) -> float:
    return steps.total / steps.count


def _finding(job: Job, steps: Steps, rank: int, cause: Cause, share: float) -> Finding:
    host = job.ranks[rank].host
    time = share * _step(steps)
    where = f" on host {host}" if host else ""
    what = "every step" if steps.found else "every slice of time"
    sentence = f"Rank {rank}{where} makes {what} {time / 1e6:.1f} ms longer ({100 * share:.0f} %): it {cause.reason}."
    return Finding(rank, host, cause, time, share, sentence)
