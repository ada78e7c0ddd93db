# SPDX-License-Identifier: Apache-2.0
"""Which process sets of an elastic job go on in the next epoch."""

from typing import Dict, List, Sequence, Tuple

_Sets = Dict[int, Tuple[int, ...]]  # workers by the set's id


class ProcessSets:
    """The process sets of the present epoch, as its members tell of them.

    All members make a set together, but one of them may fail at that moment. So a set goes on if all survivors have told of it,
    and if all of its members survive.
    """

    def __init__(self) -> None:
        self._told: Dict[int, _Sets] = {}  # by the worker that has told
        self.next_id = 1  # above every id that there was

    def made(self, worker: int, number: int, workers: Sequence[int]) -> None:
        """A member has made the set ``number``."""
        self._told.setdefault(worker, {})[number] = tuple(workers)
        self.next_id = max(self.next_id, number + 1)

    def ended(self, worker: int, number: int) -> None:
        """A member has ended the set ``number``."""
        self._told.setdefault(worker, {}).pop(number, None)

    def begin(self, survivors: List[int], members: Sequence[int]) -> Tuple[Tuple[int, Tuple[int, ...]], ...]:
        """An epoch begins. ``survivors``: its members from the epoch before. The sets that go on, with the ranks of their members."""
        told = [self._told.get(worker, {}) for worker in survivors]
        first: _Sets = told[0] if told else {}
        kept = {
            number: workers
            for number, workers in sorted(first.items())
            if set(workers) <= set(members) and all(sets.get(number) == workers for sets in told)
        }
        self._told = {worker: dict(kept) for worker in members}
        return tuple((number, tuple(sorted(map(members.index, workers)))) for number, workers in kept.items())
