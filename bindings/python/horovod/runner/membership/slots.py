# SPDX-License-Identifier: Apache-2.0
"""The slots of the hosts of an elastic job: which are free, and which rest after a failure."""

from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from .orders import Slots

# A slot whose workers fail so often, without any progress between, is not used again unless a cooldown is given.
_MOST_FAILURES = 3
# Who leaves by itself does so because its host is about to go: clouds and schedulers warn half a minute to two minutes before.
_REST_AFTER_LEAVE = 120.0
_Slot = Tuple[str, int]


class SlotTable:
    """``cooldown``: how long a slot rests after a failure, shortest and longest, in seconds; None: not at all.

    ``random()``: a number from 0 to 1.
    """

    def __init__(self, cooldown: Optional[Tuple[float, float]], random: Callable[[], float]) -> None:
        self._cooldown, self._random = cooldown, random
        self._offered: Dict[str, int] = {}
        self._hosts: List[str] = []  # in the order in which they were found
        self._taken: Set[_Slot] = set()
        self._failures: Dict[_Slot, int] = {}
        self._rests_until: Dict[_Slot, float] = {}

    def offer(self, slots: Slots) -> None:
        """The hosts there are now. Hosts that were known keep their order, new ones follow."""
        self._offered = dict(slots)
        self._hosts = [host for host in self._hosts if host in slots] + [host for host in slots if host not in self._hosts]

    def offers(self, host: str, slot: int) -> bool:
        """Whether the slot is among those that were offered last."""
        return slot < self._offered.get(host, 0)

    def take(self, now: float, count: int) -> List[_Slot]:
        """At most so many free slots, which are taken from now on."""
        taken = self._free(now)[: max(0, count)]
        self._taken.update(taken)
        return taken

    def free_now(self, now: float) -> int:
        """How many slots could be taken."""
        return len(self._free(now))

    def next_rested(self, now: float) -> Optional[float]:
        """When the next slot has rested; None if none rests."""
        return min(
            (when for slot, when in self._rests_until.items() if now < when < float("inf") and self.offers(*slot)), default=None
        )

    def resting(self, now: float) -> int:
        """How many slots that were offered cannot be used now."""
        return sum(when > now and self.offers(*slot) for slot, when in self._rests_until.items())

    def leave(self, now: float, host: str, slot: int, failed: bool, by_itself: bool) -> None:
        """The worker of this slot has ended."""
        self._taken.discard((host, slot))
        if by_itself:
            self._rests_until[host, slot] = now + _REST_AFTER_LEAVE
        if not failed:
            return
        count = self._failures[host, slot] = self._failures.get((host, slot), 0) + 1
        if self._cooldown is not None:
            shortest, longest = self._cooldown
            rest = min(longest, shortest * 2 ** min(count - 1, 30) + self._random() * shortest)
            self._rests_until[host, slot] = now + rest
        elif count >= _MOST_FAILURES:
            self._rests_until[host, slot] = float("inf")

    def forgive(self, slots: Iterable[_Slot]) -> None:
        """Workers of these slots have brought the job forward: their failures count no more."""
        for slot in slots:
            self._failures.pop(slot, None)

    def _free(self, now: float) -> List[_Slot]:
        return [
            (host, slot)
            for host in self._hosts
            for slot in range(self._offered[host])
            if (host, slot) not in self._taken and self._rests_until.get((host, slot), now) <= now
        ]
