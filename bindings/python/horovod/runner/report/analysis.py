# SPDX-License-Identifier: Apache-2.0
"""Everything that a report says, found once and used by the page and by the text."""

from typing import Dict, List, NamedTuple

from . import facts as kernel
from .attribution import Finding, Gain, findings, gains, verdict
from .records import Job, Operation, read_job
from .replay import Replay
from .shares import Shares, average, shares
from .steps import Steps, find_steps
from .timeline import Way, ways_of


class Analysis(NamedTuple):
    """``rows``: the shares of each step, by rank."""

    job: Job
    ways: Dict[int, Way]
    steps: Steps
    rows: Dict[int, List[Shares]]
    findings: List[Finding]
    gains: List[Gain]
    facts: Dict[int, kernel.Facts]
    links: List[kernel.Link]
    verdict: str

    def inside(self, rank: int) -> List[Operation]:
        """The shared operations of a rank that lie within the steps."""
        begin, end = self.steps.span
        return [operation for operation in self.ways[rank].operations if begin <= operation.submitted and operation.ended <= end]

    def mean(self, rank: int) -> Shares:
        """The mean step of a rank."""
        return average(self.rows[rank])


def analyse(folder: str) -> Analysis:
    """Reads the folder of a job and finds everything; ReportError if there is nothing to be found."""
    return analyse_job(read_job(folder))


def analyse_job(job: Job) -> Analysis:
    """The same for records that have been read."""
    ways = ways_of(job)
    steps = find_steps(job, ways)
    rows = shares(job, ways, steps)
    replay = Replay(ways, steps.span)
    by_rank = gains(replay, ways, steps)
    found = findings(job, replay, steps, rows, by_rank)
    return Analysis(job, ways, steps, rows, found, by_rank, kernel.facts(job, steps), kernel.links(job, steps), verdict(found))
