# SPDX-License-Identifier: Apache-2.0
"""How a job went: what the launcher learns about every rank and every host."""

from typing import List, Optional, Tuple

from ..plan.hosts import Place
from .blame import culprit
from .rank import Rank


class Outcome:
    """How the job went."""

    noun = "rank"  # what the numbers of `ranks` are called

    def __init__(self, places: List[Place]) -> None:
        self.ranks = [Rank(place) for place in places]
        self.order: List[int] = []  # ranks in the order in which they ended
        self.failed = False  # a rank did, before anything else ended the job
        self.not_ready: List[Tuple[str, str]] = []  # hosts where nothing could be started, and why
        self.not_started: Optional[tuple] = None  # rank, errno, text
        self.signal: Optional[int] = None  # that stopped the job from outside
        self.output_lost: Optional[str] = None  # why nothing more could be written to our own output
        self.guardian_lost = False
        self.lost_hosts: List[Tuple[str, str]] = []  # hosts that went away during the job, and how
        self.left_behind: List[tuple] = []  # (pid, name, host) of processes that outlived the ranks
        self.unkillable: List[int] = []
        self.records: Optional[str] = None  # the folder in which records of the ranks stay

    @property
    def first_failure(self) -> Optional[int]:
        """The rank to blame if one failed, as far as is known; certain when all have ended."""
        return culprit(self.ranks, self.order) if self.failed else None

    def label(self, number: int) -> Optional[int]:
        """The rank that one of `ranks` is in the job; None if it is none now."""
        return number

    def number_of(self, rank: int, size: int) -> Optional[int]:
        """The number in `ranks` of a rank in a job of this size; None if that is a part of the job."""
        return rank if size == len(self.ranks) and 0 <= rank < size else None

    def exit_code(self) -> int:
        """What horovodrun returns: the code of the rank that failed first, 128 + signal for a death by signal."""
        first = self.first_failure
        if first is not None:
            return self.ranks[first].exit_code()
        if self.signal is not None:
            return 128 + self.signal
        if self.not_started is not None:
            return 127 if self.not_started[1] == 2 else 126
        return 1 if self.output_lost or self.guardian_lost or self.unkillable or self.not_ready or self.lost_hosts else 0

    def ends_already(self) -> bool:
        """True when a rank that fails now is no news."""
        return bool(self.signal or self.output_lost or self.not_started or self.lost_hosts)

    def note(self, host: Optional[str], event: dict) -> bool:
        """One message of an agent, see agents/agent.py; `host` is None for this machine. True if the other hosts must stop now."""
        if "started" in event:
            self.ranks[event["started"]].pid = event["pid"]
        elif "exited" in event:
            rank = self.ranks[event["exited"]]
            rank.note_end(event)
            self.order.append(event["exited"])
            if rank.code != 0 and not self.failed and not self.ends_already():
                self.failed = True
                return True
        elif "stopping" in event:
            for number in event["stopping"]:
                self.ranks[number].note_stop(event["signal"], event["after"])
        elif "not_started" in event:
            if self.not_started is None:
                self.not_started = (event["not_started"], event["errno"], event["text"])
                return True
        elif "left_behind" in event:
            self.left_behind += [(pid, name, host) for pid, name in event["left_behind"]]
        elif "done" in event:
            self.unkillable += event["unkillable"]
        return False
