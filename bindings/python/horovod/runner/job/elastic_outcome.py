# SPDX-License-Identifier: Apache-2.0
"""How an elastic job went: a worker that fails is news, and not the end."""

import signal
from typing import Dict, List, Optional, Set, Tuple

from ..plan.hosts import Place
from .blame import culprit
from .outcome import Outcome
from .rank import Rank
from .summary import describe_end


class ElasticOutcome(Outcome):
    """``ranks``: every worker there has been, by number."""

    noun = "worker"

    def __init__(self) -> None:
        super().__init__([])
        self.why: Optional[str] = None  # the job could not go on
        self._blamed: Optional[int] = None
        self.members: Tuple[int, ...] = ()  # workers of the epoch, in the order of their ranks
        self._ended_before = 0  # how many workers had when this epoch began
        self._with_host: Set[int] = set()  # workers whose host was lost
        self._expelled: Dict[int, float] = {}  # workers that were stopped by a signal, and for how many seconds
        self._gone: List[int] = []  # members that have ended in this epoch
        self._joined: List[int] = []

    def lose_host(self, workers: List[int]) -> List[int]:
        """The host of these workers has gone: which of them had lived until then."""
        lost = [worker for worker in workers if self.ranks[worker].code is None]
        for worker in lost:
            self.ranks[worker].code = -int(signal.SIGKILL)
            self.ranks[worker].after = 0.0
            self.order.append(worker)
            self._with_host.add(worker)
        return lost

    def expel(self, worker: int, seconds: float) -> None:
        """A worker stands still, and the others go on without it."""
        self._expelled[worker] = seconds

    def add(self, place: Place) -> None:
        """A worker has been started."""
        self.ranks.append(Rank(place))

    def begin(self, members: Tuple[int, ...]) -> None:
        """An epoch has begun."""
        self._joined = [worker for worker in members if worker not in self.members]
        self._gone = [worker for worker in self.members if worker not in members]
        self.members, self._ended_before = members, len(self.order)

    def news(self) -> str:
        """Who has gone and who has come with this epoch."""
        told = [f"{self._name(worker)} {self._how(worker)}" for worker in self._gone]
        told += [f"{self._name(worker)} has joined" for worker in self._joined]
        return "; ".join(told) or "an operation failed on all ranks"

    def _name(self, worker: int) -> str:
        return f"worker {worker} on {self.ranks[worker].place.host}"

    def _how(self, worker: int) -> str:
        code = self.ranks[worker].code
        if worker in self._with_host:
            return "was lost with its host"
        if worker in self._expelled:
            return f"was expelled (stopped by a signal for {self._expelled[worker]:g} s)"
        return "leaves" if code is None or code == 0 else f"was lost ({describe_end(code)})"

    def label(self, number: int) -> Optional[int]:
        return self.members.index(number) if number in self.members else None

    def number_of(self, rank: int, size: int) -> Optional[int]:
        return self.members[rank] if size == len(self.members) and 0 <= rank < size else None

    def living(self) -> bool:
        """Whether a worker has not ended yet."""
        return any(rank.code is None for rank in self.ranks)

    def give_up(self, why: str, blamed: Optional[int]) -> None:
        """The job cannot go on."""
        self.why, self._blamed, self.failed = why, blamed, True

    @property
    def first_failure(self) -> Optional[int]:
        if not self.failed or self._blamed is None:
            return None
        found = culprit(self.ranks, self.order[self._ended_before :])
        return self._blamed if found is None else found

    def exit_code(self) -> int:
        if self.failed and self._blamed is None:
            return 1
        return super().exit_code()

    def note(self, host: Optional[str], event: dict) -> bool:
        if "exited" in event:
            rank = self.ranks[event["exited"]]
            rank.note_end(event if "blames" not in event else {**event, "blames": self._by_worker(rank, event["blames"])})
            self.order.append(event["exited"])
            return False
        return super().note(host, event)

    def _by_worker(self, rank: Rank, blames: List[float]) -> List[float]:
        """Whom a rank blames, by worker: its engine knows ranks of the epoch."""
        number, size, at = blames
        known = size == len(self.members) and 0 <= number < size
        return [self.members[int(number)] if known else -1, rank.place.size, at]
