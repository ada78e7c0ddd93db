# SPDX-License-Identifier: Apache-2.0
"""Reports operations that wait for ranks that do not come: once for the whole job, with what those ranks are doing.

Every rank that waits writes its own report into its flight memory, again and again. From all of them, one is made for each group of
ranks that are waited for, and again when the wait has lasted twice as long.
"""

from typing import Callable, Dict, List, Optional, Tuple

_NEXT = 1.9  # twice as long, a little early: the ranks look at their clocks at different moments
_MOST_SHOWN = 4  # ranks that are shown with their stacks


class _Stall:
    def __init__(self, entry: Dict) -> None:
        self.entry = entry
        self.others = set()
        self.reported_at: Optional[float] = None
        self.next_age = 0.0


class Stalls:
    """``look(numbers, done)`` begins a look with the stacks of these ranks; ``number_of(rank, size)`` is None for a rank of a part of
    the job; ``say(text)`` writes a report."""

    def __init__(self, look: Callable, number_of: Callable, say: Callable[[str], None]) -> None:
        self._look, self._number_of, self._say = look, number_of, say
        self._known: Dict[Tuple, _Stall] = {}

    def note(self, event: Dict, now: float) -> None:
        """Reports that a rank has written."""
        for entry in event["stalled"]:
            self._note(entry, event["size"], now)

    def _note(self, entry: Dict, size: int, now: float) -> None:
        key = (size, entry["set"], tuple(entry["missing"]))
        stall = self._known.get(key)
        # An operation that was submitted after the last report is another stall, even if it waits for the same ranks.
        if stall is None or (stall.reported_at is not None and now - entry["waited"] > stall.reported_at):
            stall = self._known[key] = _Stall(entry)
        if _name(entry) != _name(stall.entry):
            stall.others.add(_name(entry))
        if entry["waited"] < stall.next_age:
            return
        stall.entry = {**stall.entry, "waited": entry["waited"], "text": entry["text"]}
        stall.next_age, stall.reported_at = _NEXT * entry["waited"], now
        numbers = [self._number_of(rank, size) for rank in entry["missing"]]
        known = [number for number in numbers if number is not None]
        self._look(known[:_MOST_SHOWN], lambda answer: self._report(stall, known, answer))

    def _report(self, stall: _Stall, missing: List[int], answer: Dict) -> None:
        from ..view import stalls

        self._say("\n".join(stalls.report(stall.entry, len(stall.others), missing, answer, _MOST_SHOWN)))


def _name(entry: Dict) -> Tuple:
    return entry["set"], entry["kind"], entry["name"]
