# SPDX-License-Identifier: Apache-2.0
"""What each rank's processor and network did per step, from the samples that the guardians took (on_host/sampler.py)."""

from statistics import median
from typing import Dict, List, NamedTuple, Optional, Tuple

from .records import Job, Rank
from .steps import Steps


class Thread(NamedTuple):
    """Per step. Times are nanoseconds, the rest are numbers of events."""

    cpu: float = 0.0
    system: float = 0.0
    queued: float = 0.0
    slept: float = 0.0
    pushed: float = 0.0
    minor: float = 0.0
    major: float = 0.0


class Facts(NamedTuple):
    """Of one rank, per step. ``others``: processor time of all threads but the main one; ``others_queued``: the time for which the
    busiest of them were ready and no core was free; ``busiest``: the name of the one that ran most.

    ``usual_queue``: of an excess, the time for which the other ranks are queued for each nanosecond that they run.
    """

    main: Thread
    others: float
    others_queued: float
    busiest: str
    busiest_cpu: float
    usual_queue: float = 0.0


class Link(NamedTuple):
    """One direction of the connections from one rank to another, over the whole time of the report."""

    sender: int
    receiver: int
    bytes: int
    sent: int  # segments
    resent: int
    busy: int  # ns in which the sender had bytes that the receiver had not confirmed

    @property
    def rate(self) -> float:
        """Bytes per second while busy."""
        return self.bytes * 1e9 / self.busy if self.busy else 0.0


def facts(job: Job, steps: Steps) -> Dict[int, Facts]:
    """The facts of each rank that has samples within the steps."""
    found = {}
    for rank in job.ranks.values():
        begin, end = steps.spans[rank.rank][0][0], steps.spans[rank.rank][-1][1]
        samples = _within(rank, begin, end)
        span = sum(sample["at"] - sample["since"] for sample in samples)
        if span > 0:
            found[rank.rank] = _per_step(samples, (end - begin) / steps.count / span)
    return found


def links(job: Job, steps: Steps) -> List[Link]:
    """The links between ranks, each direction by itself; those that carried less than 1 % of the busiest one's bytes are left out."""
    owner: Dict[Tuple[str, str], int] = {}
    totals: Dict[Tuple[str, str], List[int]] = {}
    for rank in job.ranks.values():
        for sample in _within(rank, steps.spans[rank.rank][0][0], steps.spans[rank.rank][-1][1]):
            for link in sample.get("links", ()):
                ends = (link["local"], link["peer"])
                owner[ends] = rank.rank
                total = totals.setdefault(ends, [0, 0, 0, 0])
                for place, name in enumerate(("acked", "sent", "resent", "busy")):
                    total[place] += link[name]
    between: Dict[Tuple[int, int], List[int]] = {}
    for ends, total in totals.items():
        receiver = owner.get((ends[1], ends[0]))
        if receiver is not None and receiver != owner[ends]:
            sums = between.setdefault((owner[ends], receiver), [0, 0, 0, 0])
            for place, value in enumerate(total):
                sums[place] += value
    most = max((sums[0] for sums in between.values()), default=0)
    return [Link(*pair, *sums) for pair, sums in sorted(between.items()) if sums[0] >= max(1, most / 100)]


def excess(of: Dict[int, Facts], rank: int) -> Optional[Facts]:
    """How much more a rank has of everything than the median of the others; None without samples of it and of another rank."""
    others = [facts for other, facts in of.items() if other != rank]
    if rank not in of or not others:
        return None
    own = of[rank]
    main = Thread(*(value - median(values) for value, values in zip(own.main, zip(*(facts.main for facts in others)))))
    busiest = own.busiest_cpu - median(facts.busiest_cpu for facts in others)
    others_run, others_wait = (
        getattr(own, name) - median(getattr(facts, name) for facts in others) for name in ("others", "others_queued")
    )
    queue = median(facts.main.queued / max(facts.main.cpu, 1.0) for facts in others)
    return Facts(main, others_run, others_wait, own.busiest, busiest, queue)


def _within(rank: Rank, begin: int, end: int) -> List[dict]:
    """The samples that lie within this time with at least half of theirs; of a very short time the sample that has most of it."""
    part = {number: min(s["at"], end) - max(s["since"], begin) for number, s in enumerate(rank.samples)}
    inside = [number for number, time in part.items() if 2 * time >= rank.samples[number]["at"] - rank.samples[number]["since"] > 0]
    if not inside:
        inside = [number for number in part if part[number] > 0 and part[number] == max(part.values())]
    return [rank.samples[number] for number in inside]


def _per_step(samples: List[dict], share: float) -> Facts:
    """``share``: one step's part of the time of all samples."""
    names = Thread._fields
    main = dict.fromkeys(names, 0)
    by_thread: Dict[Tuple[int, str], int] = {}
    others = queued = 0
    for sample in samples:
        for number, row in enumerate(sample["threads"]):
            if number == 0:
                for name in names:
                    main[name] += row[name]
            else:
                thread = (row["thread"], row["name"])
                by_thread[thread] = by_thread.get(thread, 0) + row["cpu"]
                others += row["cpu"]
                queued += row["queued"]
        others += sample.get("others", 0)
    busiest = max(by_thread, key=lambda thread: by_thread[thread], default=(0, ""))
    main_thread = Thread(*(main[name] * share for name in names))
    return Facts(main_thread, others * share, queued * share, busiest[1], by_thread.get(busiest, 0) * share)
