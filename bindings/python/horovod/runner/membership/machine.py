# SPDX-License-Identifier: Apache-2.0
"""The machine that decides who belongs to an elastic job: events and times come in, orders go out.

A *worker* is a process, with a number that is never used again. An *epoch* is the time between two memberships: a number from 1,
and the members in the order of their ranks. A worker asks to belong to the next epoch; the machine answers all members of an
epoch at once. So no worker takes part in an epoch whose members another one sees differently.

The next epoch begins when every member of this one that lives has asked for it. A member asks because an operation has failed, or
because it was told of a change and has agreed about that with the others. Members keep their order, newcomers follow, and the
member whose state has come furthest is rank 0, which has a state for whoever has none.
"""

import random
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .orders import ADDED, REMOVED, Begin, Bounds, Changed, End, Order, Refuse, Slots, Start
from .process_sets import ProcessSets
from .slots import SlotTable

# Newcomers that are about to arrive are let in together; those that take longer than this come in an epoch of their own.
_GATHERING = 1.0
# So many workers may fail before the job has begun, and so many epochs may end by failures one after the other before any member commits:
# then the job fails at the same place every time.
_MOST_WITHOUT_PROGRESS = 3
_STOPPED = "the job is being stopped"
_EXPELLED = "it was stopped by a signal for too long"
_LEFT = "it leaves the job, as it was asked to, or because its host or slot was taken out of it"


@dataclass
class _Worker:
    number: int
    host: str
    slot: int
    asks: bool = False  # for a place in the next epoch
    since: float = 0.0  # when it asked
    position: int = -1  # how far its state has come; -1: it has none
    leaves: bool = False  # in order, at the next commit
    by_itself: bool = False  # it has asked for that, because its host is about to go


@dataclass
class Membership:
    """See the module. Every event returns orders. ``deadline``: when ``tick`` is due; None if nothing waits for a time."""

    bounds: Bounds
    random: Callable[[], float] = random.random  # from 0 to 1
    epoch: int = 0
    members: Tuple[int, ...] = ()
    deadline: Optional[float] = None
    over: bool = False
    _workers: Dict[int, _Worker] = field(default_factory=dict)  # that live and are not expelled
    _expelled: Dict[int, _Worker] = field(default_factory=dict)  # whose processes are still there
    _slots: SlotTable = field(init=False)
    _sets: ProcessSets = field(default_factory=ProcessSets)
    _next: int = 0
    _position: int = -1  # of the furthest member when the epoch began
    _fruitless: int = 0  # epochs one after the other that a failure ended before anybody committed
    _failed: Optional[int] = None  # the worker that failed first in this epoch, a member if one did
    _told: int = 0  # what the members of this epoch were told of: flags
    _short_since: Optional[float] = None
    _stopping: bool = False
    _succeeded: bool = False  # a worker has ended in order, so that the job is about to end

    def __post_init__(self) -> None:
        self._slots = SlotTable(self.bounds.cooldown, self.random)

    # Events.

    def found(self, now: float, slots: Slots) -> List[Order]:
        """The hosts that there are, each with the number of its slots."""
        self._slots.offer(slots)
        orders: List[Order] = []
        for worker in self._workers.values():
            if not worker.leaves and not self._slots.offers(worker.host, worker.slot):
                worker.leaves = True
                if worker.asks and worker.number not in self.members:
                    orders.append(Refuse(worker.number, _LEFT))
        return orders + self._settle(now)

    def asked(self, now: float, number: int, position: int) -> List[Order]:
        """A worker asks for a place in the next epoch. ``position``: how far its state has come, -1 if it has none."""
        worker = self._workers.get(number)
        if self.over and position < 0 and number not in self._expelled:
            return []  # a newcomer that comes too late is stopped with the job
        if number in self._expelled:
            return [Refuse(number, _EXPELLED, expelled=True)]
        if worker is None or self.over:
            return [Refuse(number, "it does not belong to this job any more")]
        if self._stopping:
            return [Refuse(number, _STOPPED)]
        if worker.leaves and number not in self.members:
            return [Refuse(number, _LEFT)]
        worker.asks, worker.since, worker.position = True, now, position
        return self._settle(now)

    def leaving(self, now: float, number: int) -> List[Order]:
        """A worker wants to leave in order."""
        if number in self._workers:
            self._workers[number].leaves = self._workers[number].by_itself = True
        return self._settle(now)

    def set_changed(self, number: int, set_id: int, ranks: Sequence[int]) -> None:
        """A member tells of a process set that the members have made, or without ranks of one that they have ended."""
        if number not in self.members or not all(0 <= rank < len(self.members) for rank in ranks):
            return
        if ranks:
            self._sets.made(number, set_id, [self.members[rank] for rank in ranks])
        else:
            self._sets.ended(number, set_id)

    def stopping(self) -> List[Order]:
        """The job is stopped from outside: members leave at their next commit, and nobody comes."""
        self._stopping, self.deadline = True, None
        return self._refuse_all(_STOPPED) + [Changed(tuple(self._living_members()), REMOVED)]

    def expelled(self, now: float, number: int) -> List[Order]:
        """A worker stands still, and the others go on without it. Its process keeps its slot until it ends."""
        worker = self._workers.pop(number, None)
        if worker is None:
            return []
        self._expelled[number] = worker
        self._note_failure(number)
        refused: List[Order] = [Refuse(number, _EXPELLED, expelled=True)] if worker.asks else []
        return refused + self._settle(now)

    def ended(self, now: float, number: int, failed: bool) -> List[Order]:
        """The process of a worker has ended."""
        if number in self._expelled:
            worker = self._expelled.pop(number)
            self._slots.leave(now, worker.host, worker.slot, True, False)
            return self._settle(now)
        worker = self._workers.pop(number, None)
        if worker is None:
            return []
        failed = failed and not worker.leaves
        self._slots.leave(now, worker.host, worker.slot, failed, worker.by_itself)
        if failed:
            self._note_failure(number)
        elif not worker.leaves:
            self._succeeded = True
        return self._settle(now)

    def tick(self, now: float) -> List[Order]:
        """The time of ``deadline`` has come."""
        return self._settle(now)

    def resting(self, now: float) -> int:
        """How many slots rest after a failure."""
        return self._slots.resting(now)

    def missing(self) -> List[int]:
        """Members that the others wait for, which have asked for the next epoch."""
        members = [self._workers[number] for number in self._living_members()]
        if not any(worker.asks for worker in members):
            return []
        return [worker.number for worker in members if not worker.asks and not worker.leaves]

    # Decisions.

    def _note_failure(self, number: int) -> None:
        if self._failed is None or (self._failed not in self.members and number in self.members):
            self._failed = number  # of several the first, of which the others may be a consequence
        self._fruitless += not self.epoch

    def _settle(self, now: float) -> List[Order]:
        if self.over or self._stopping:
            return []
        self.deadline = None
        orders = self._end(now)
        if not self.over:
            orders = self._start(now) + self._begin(now)
        if not self.over:
            orders += self._tell(now)
        return orders

    def _end(self, now: float) -> List[Order]:
        """The order to end the job, if it cannot go on."""
        if self._succeeded:  # whoever is left comes to its end, too
            self.over = not (self._living_members() if self.epoch else self._workers)
            return []
        if self.epoch and not self._living_members():
            return self._give_up("no rank is left that had the state of the job")
        if not self.epoch and self._fruitless >= _MOST_WITHOUT_PROGRESS:
            return self._give_up(f"{self._fruitless} processes failed before the job had begun")
        wanted = self.bounds.least if self.epoch else self.bounds.first
        at_hand = len(self._staying())
        if at_hand >= wanted or at_hand + self._slots.free_now(now) >= wanted:
            self._short_since = None
            return []
        if self._short_since is None:
            self._short_since = now
        if now >= self._short_since + self.bounds.patience or self._is_hopeless(now):
            there = "1 rank has" if at_hand == 1 else f"{at_hand} ranks have"
            waited = "" if self._is_hopeless(now) else f" for {self.bounds.patience:g} s"
            needed = "1 rank is" if wanted == 1 else f"{wanted} ranks are"
            return self._give_up(f"{needed} needed, and {there} had a place{waited}")
        self._wake(self._short_since + self.bounds.patience)
        return []

    def _is_hopeless(self, now: float) -> bool:
        """Whether no slot will be free any more."""
        leaving = [worker for worker in self._workers.values() if worker.leaves]
        going = any(self._slots.offers(worker.host, worker.slot) for worker in [*leaving, *self._expelled.values()])
        return self.bounds.fixed and not going and self._slots.next_rested(now) is None

    def _give_up(self, why: str) -> List[Order]:
        self.over = True
        return [End(why, self._failed), *self._refuse_all("the job cannot go on: " + why)]

    def _refuse_all(self, why: str) -> List[Order]:
        """Nobody waits for an epoch that does not come."""
        return [Refuse(worker.number, why) for worker in self._workers.values() if worker.asks]

    def _start(self, now: float) -> List[Order]:
        """New workers on free slots."""
        if self._succeeded or self._resets_are_spent():
            return []
        orders: List[Order] = []
        for host, slot in self._slots.take(now, self.bounds.most - len(self._staying())):
            self._workers[self._next] = _Worker(self._next, host, slot)
            orders.append(Start(self._next, host, slot))
            self._next += 1
        if len(self._staying()) < self.bounds.most:
            self._wake(self._slots.next_rested(now))
        return orders

    def _begin(self, now: float) -> List[Order]:
        """The next epoch, if all that are to belong to it have asked."""
        living = [self._workers[number] for number in self._living_members()]
        staying = [worker for worker in living if not worker.leaves]
        if all(worker.asks and worker.position < 0 for worker in staying) and (self._position >= 0 or not staying):
            staying = living  # the last ones that have the state stay until others have it
        if any(not worker.asks for worker in staying):
            return []
        if self._resets_are_spent():
            return self._give_up(f"the members of the job have changed {self.bounds.resets} times (--reset-limit)")
        newcomers = [worker for worker in self._newcomers() if worker.asks]
        if not self.epoch and not self._have_gathered(now):
            return []
        going = sum(worker.leaves for worker in staying)
        chosen = (staying + newcomers)[: max(self.bounds.most + going, len(staying))]
        wanted = self.bounds.least if self.epoch and not self._succeeded else 1 if self.epoch else self.bounds.first
        left = [worker for worker in living if worker.asks and worker not in chosen]
        for worker in left:
            worker.asks = False
        refused: List[Order] = [Refuse(worker.number, _LEFT) for worker in left]
        if len(chosen) < wanted:
            return refused
        end = self._refuse_fruitless(chosen)
        if end:
            return refused + end
        return [self._decide(chosen), *refused]

    def _refuse_fruitless(self, chosen: List[_Worker]) -> List[Order]:
        """Ends a job that fails again and again."""
        if not self.epoch:
            return []
        furthest = max(worker.position for worker in chosen)
        if furthest < 0 <= self._position:
            return self._give_up("no rank is left that had the state of the job")
        if furthest > self._position:
            self._fruitless = 0
        elif self._failed is not None:
            self._fruitless += 1
        if self._fruitless >= _MOST_WITHOUT_PROGRESS:
            return self._give_up(f"{self._fruitless} failures in a row, without a commit between them")
        if furthest > self._position:
            self._slots.forgive((worker.host, worker.slot) for worker in chosen)
        return []

    def _decide(self, chosen: List[_Worker]) -> Order:
        survivors = [worker for worker in chosen if worker.number in self.members]
        failed = len(survivors) < len(self.members) and self._failed is not None
        alike = len({worker.position for worker in chosen}) == 1
        synchronize = not self.epoch or failed or not alike or len(survivors) < len(chosen)
        first = max(survivors, key=lambda worker: worker.position, default=None)
        if first is not None:
            chosen = [first] + [worker for worker in chosen if worker is not first]
        self.epoch += 1
        self.members = tuple(worker.number for worker in chosen)
        self._position = max(worker.position for worker in chosen)
        self._failed, self._told = None, 0
        for worker in chosen:
            worker.asks = False
        sets = self._sets.begin([worker.number for worker in survivors], self.members)
        hosts = tuple(worker.host for worker in chosen)
        return Begin(self.epoch, self.members, hosts, synchronize, sets, self._sets.next_id)

    def _tell(self, now: float) -> List[Order]:
        """Tells the members of newcomers that wait for them, and of members that are about to leave."""
        members = [self._workers[number] for number in self._living_members()]
        leaving = [worker for worker in members if worker.leaves]
        others_wait = any(worker.asks for worker in self._newcomers())
        flags = REMOVED if leaving and (len(leaving) < len(members) or others_wait) else 0
        room = len(members) - len(leaving) < self.bounds.most and not self._resets_are_spent()  # newcomers would end the job
        if room and self._have_gathered(now):
            flags |= ADDED
        if not self.epoch or flags | self._told == self._told:
            return []
        self._told |= flags
        return [Changed(tuple(worker.number for worker in members), flags)]

    def _resets_are_spent(self) -> bool:
        """Whether no other epoch may follow this one."""
        return self.bounds.resets is not None and self.epoch > self.bounds.resets

    def _have_gathered(self, now: float) -> bool:
        """Whether there are newcomers that wait for nobody else who is about to come."""
        waiting = [worker.since for worker in self._newcomers() if worker.asks]
        if not waiting or len(waiting) == len(self._newcomers()):
            return bool(waiting)
        if not self.epoch and len(waiting) < self.bounds.first:
            return False
        enough = sorted(waiting)[0 if self.epoch else self.bounds.first - 1] + _GATHERING
        if now < enough:
            self._wake(enough)
        return now >= enough

    def _newcomers(self) -> List[_Worker]:
        return [worker for worker in self._staying() if worker.number not in self.members]

    def _living_members(self) -> List[int]:
        return [number for number in self.members if number in self._workers]

    def _staying(self) -> List[_Worker]:
        return [worker for worker in self._workers.values() if not worker.leaves]

    def _wake(self, when: Optional[float]) -> None:
        if when is not None:
            self.deadline = when if self.deadline is None else min(self.deadline, when)
