# SPDX-License-Identifier: Apache-2.0
"""Prints the frames of a traceback once, if several ranks write the same one.

Only the console is concerned: files of --output-filename have everything, byte for byte. Nothing is lost there either, because lines
are left out only when all of them stand above, under another rank's number; the line with the exception is always printed. The
first rank's lines are never held up, and the others' only while they are the same as lines above, at most HOLD seconds.
"""

import time
from typing import List, Optional, Set

HOLD = 0.5
_BEGIN = "Traceback (most recent call last):"
_KEPT = 64  # tracebacks that are remembered


class _Trace:
    """The frames of a traceback that has been printed, or is being printed, by a rank."""

    def __init__(self, rank: int) -> None:
        self.rank, self.lines, self.is_whole = rank, [_BEGIN], False


class Tracebacks:
    """What all ranks of a job share."""

    def __init__(self) -> None:
        self._traces: List[_Trace] = []
        self.holding: Set[int] = set()  # ranks of which lines are held

    def new(self, rank: int) -> _Trace:
        """A traceback begins to be printed."""
        self._traces = [*self._traces[-_KEPT + 1:], _Trace(rank)]
        return self._traces[-1]

    def matching(self, rank: int, lines: List[str], is_whole: bool) -> Optional[_Trace]:
        """A traceback of another rank that is or begins with these lines."""
        for trace in self._traces:
            if trace.rank != rank and (trace.lines == lines if is_whole else trace.lines[: len(lines)] == lines):
                return trace if trace.is_whole or not is_whole else None
        return None


class Repeated:
    """The stderr of one rank: takes lines, and gives those that are to be printed."""

    def __init__(self, rank: int, shared: Tracebacks) -> None:
        self._rank, self._shared = rank, shared
        self._held: List[str] = []  # with their ends
        self._own: Optional[_Trace] = None
        self.since: Optional[float] = None  # when the first line that is held came

    def feed(self, lines: List[str]) -> List[str]:
        """Lines with their ends, as they come; returns those to print now, in their order."""
        out: List[str] = []
        for line in lines:
            text = line.rstrip("\r\n")
            if self._held and self._goes_on(text):
                self._held.append(line)
                if self._shared.matching(self._rank, self._texts(), False) is None:
                    out += self.release()
                continue
            if self._held:
                out += self._end_of_held()
            if text == _BEGIN:
                self._begin(line, out)
                continue
            if self._own is not None:
                self._follow(text)
            out.append(line)
        return out

    def release(self) -> List[str]:
        """The lines that are held, which are not the same as others or have been held for too long."""
        held = self._let_go()
        if held:
            self._own = self._shared.new(self._rank)
            self._own.lines = [line.rstrip("\r\n") for line in held]
        return held

    def _let_go(self) -> List[str]:
        held, self._held, self.since = self._held, [], None
        self._shared.holding.discard(self._rank)
        return held

    def _begin(self, line: str, out: List[str]) -> None:
        self._own = None
        if self._shared.matching(self._rank, [_BEGIN], False) is None:
            self._own = self._shared.new(self._rank)
            out.append(line)
        else:
            self._held, self.since = [line], time.monotonic()
            self._shared.holding.add(self._rank)

    def _goes_on(self, text: str) -> bool:
        return text.startswith(" ")

    def _follow(self, text: str) -> None:
        """A line of a traceback that is printed."""
        if self._goes_on(text):
            self._own.lines.append(text)
        else:
            self._own.is_whole, self._own = True, None

    def _texts(self) -> List[str]:
        return [line.rstrip("\r\n") for line in self._held]

    def _end_of_held(self) -> List[str]:
        """All frames have come: what is printed for them."""
        trace = self._shared.matching(self._rank, self._texts(), True)
        if trace is None:
            held = self.release()
            self._own.is_whole, self._own = True, None
            return held
        count = len(self._let_go()) - 1
        return [f"{_BEGIN} the same {count} lines as above, [{trace.rank}]<stderr>\n"]
