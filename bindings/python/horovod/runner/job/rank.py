# SPDX-License-Identifier: Apache-2.0
"""One rank as the launcher knows it."""

from typing import List, Optional, Tuple

from ..plan.hosts import Place

_CODES_OF_EXCEPTIONS = {"KeyboardInterrupt": 130}


class Rank:
    """What is known about one rank. Times are seconds from the start of the job on its host."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.pid: Optional[int] = None
        self.code: Optional[int] = None  # negative: minus the signal that killed it
        self.after: Optional[float] = None
        self.stopped_with: Optional[int] = None  # the signal that horovodrun sent before it ended
        self.stopped_at: Optional[float] = None  # when the first such signal was sent
        self.raised: Optional[Tuple[float, str]] = None  # when, and what nobody caught
        self.blames: Optional[Tuple[int, float]] = None  # whose end it was told of (-1: not known), and when
        self.stderr_tail: List[str] = []
        self.flight: Optional[dict] = None  # what its flight memory told when it ended, or was stopped; ages count back from then

    def note_end(self, event: dict) -> None:
        """The message that it has ended."""
        self.code, self.after = event["code"], event["after"]
        self.flight = event.get("flight")
        if "raised" in event:
            self.raised = tuple(event["raised"])
        if "blames" in event:
            number, size, at = event["blames"]
            self.blames = (number if size == self.place.size else -1, at)  # a part of the job numbers its ranks anew

    def note_stop(self, number: int, at: float) -> None:
        """The message that its agent has sent it a signal."""
        self.stopped_with = number
        if self.stopped_at is None:
            self.stopped_at = at

    def raised_before_stop(self) -> bool:
        """Whether it ended by an exception, and was only slow about it if it was stopped."""
        return self.raised is not None and (self.stopped_at is None or self.raised[0] < self.stopped_at)

    def exit_code(self) -> int:
        """As a shell would say it; that of its exception if it was stopped while it ended by that."""
        if self.stopped_with is not None and self.raised_before_stop():
            return _CODES_OF_EXCEPTIONS.get(self.raised[1].partition(":")[0], 1)
        code = self.code or 0
        return code if code >= 0 else 128 - code
