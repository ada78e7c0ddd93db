# SPDX-License-Identifier: Apache-2.0
"""Output of the ranks: cut into lines, prefixed with the rank, copied to files, and its end kept for the summary."""

import codecs
import os
import re
import time
from collections import deque
from typing import Deque, List, Optional

from .tracebacks import HOLD, Repeated, Tracebacks

_LINE_END = re.compile(r"(\r\n|\n|\r)")
# A line longer than this is cut, so that output without line ends cannot fill the memory.
_LONGEST_LINE = 16 << 20
_TAIL_LINES = 20
_TAIL_COLUMNS = 2000


class LineCutter:
    """Cuts a byte stream into lines that keep their end: \\n, \\r\\n, or the \\r of a progress bar.

    When a piece ends between \\r and \\n, the line goes out with \\r at once (a progress bar must not wait), and the \\n
    follows as an empty string.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._partial: List[str] = []
        self._partial_size = 0
        self._after_cr = False

    def feed(self, data: bytes) -> List[str]:
        """Lines that are complete with this piece, each with its end."""
        return self._cut(self._decoder.decode(data))

    def close(self) -> List[str]:
        """The last line, if the stream did not end with a line end; it gets one."""
        lines = self._cut(self._decoder.decode(b"", True))
        if self._partial_size:
            lines.append("".join(self._partial) + "\n")
            self._partial, self._partial_size = [], 0
        return lines

    def _cut(self, text: str) -> List[str]:
        if not text:
            return []
        lines = []
        if self._after_cr and text[0] == "\n":
            lines.append("")
            text = text[1:]
        self._after_cr = False
        pieces = _LINE_END.split(text)
        for start in range(0, len(pieces) - 1, 2):
            self._partial.append(pieces[start])
            line, end = "".join(self._partial), pieces[start + 1]
            self._partial, self._partial_size = [], 0
            # A \r with nothing before it only starts a progress bar over: the \r after the bar does that.
            if line or end != "\r":
                lines.append(line + end)
        if len(pieces) > 1 and not pieces[-1] and pieces[-2] == "\r":
            self._after_cr = bool(lines) and lines[-1].endswith("\r")
        if pieces[-1]:
            self._partial.append(pieces[-1])
            self._partial_size += len(pieces[-1])
            if self._partial_size > _LONGEST_LINE:
                lines.append("".join(self._partial) + "\n")
                self._partial, self._partial_size = [], 0
        return lines


class Tail:
    """The last lines of a stream as a terminal would show them: of a progress bar only its last state."""

    def __init__(self) -> None:
        self._lines: Deque[str] = deque(maxlen=_TAIL_LINES)
        self._open = False

    def add(self, line: str) -> None:
        if not line:
            self._open = False  # the \n after a \r that is here already
            return
        if self._open:
            self._lines.pop()
        text = line.rstrip("\r\n")
        self._lines.append(text if len(text) <= _TAIL_COLUMNS else text[:_TAIL_COLUMNS] + " …")
        self._open = line.endswith("\r")

    def lines(self) -> List[str]:
        return list(self._lines)


class RankStream:
    """One output stream of one rank, from its pipe to our own output; `pipe` is -1 if an agent sends it in frames. `tracebacks`: those of
    all ranks, for a stream in which some may be."""

    def __init__(self, rank: int, name: str, pipe: int, sink: int, timestamp: bool, copy_to: Optional[str],
                 tracebacks: Optional[Tracebacks] = None) -> None:
        self.rank, self.name, self.pipe, self.sink = rank, name, pipe, sink
        self.tail = Tail()
        self._prefix = f"[{rank}]<{name}>:"
        self._timestamp = timestamp
        self._cutter = LineCutter()
        self._closed = False
        self._repeated = Repeated(rank, tracebacks) if tracebacks is not None else None
        self._copy = open(copy_to, "wb", buffering=0) if copy_to else None
        if pipe >= 0:
            os.set_blocking(pipe, False)

    def read(self) -> bool:
        """Forwards what has arrived; False once the stream has ended. Raises BrokenPipeError if nobody reads ours."""
        try:
            data = os.read(self.pipe, 1 << 16)
        except BlockingIOError:
            return True
        self.feed(data)
        return bool(data)

    def feed(self, data: bytes) -> None:
        """Forwards a piece; an empty one ends the stream."""
        if self._copy and data:
            self._save(data)
        self._forward(self._cutter.feed(data) if data else self._cutter.close())
        if not data and self._repeated is not None:
            self._print(self._repeated.release())

    def tick(self, now: float) -> Optional[float]:
        """Prints what has been held for too long; returns when that will be for what is held."""
        since = self._repeated.since if self._repeated is not None else None
        if since is not None and now >= since + HOLD:
            self._print(self._repeated.release())
            return None
        return since and since + HOLD

    def close(self) -> None:
        """Forwards an unfinished last line and closes the pipe and the file."""
        if self._closed:
            return
        self._closed = True
        if self.pipe >= 0:
            os.close(self.pipe)
        if self._copy:
            self._copy.close()
        self._forward(self._cutter.close())
        if self._repeated is not None:
            self._print(self._repeated.release())

    def _save(self, data: bytes) -> None:
        try:
            self._copy.write(data)
        except OSError as error:
            # A full disk must not end the job: the console still has everything.
            path, self._copy = self._copy.name, None
            write_all(2, f"horovodrun: {path}: {error.strerror}; no longer written\n".encode())

    def _forward(self, lines: List[str]) -> None:
        if not lines:
            return
        for line in lines:
            self.tail.add(line)
        self._print(lines if self._repeated is None else self._repeated.feed(lines))

    def _print(self, lines: List[str]) -> None:
        if not lines:
            return
        prefix = f"{time.asctime()}{self._prefix}" if self._timestamp else self._prefix
        text = "".join(prefix + line if line else "\n" for line in lines)
        write_all(self.sink, text.encode("utf-8", "replace"))


def write_all(sink: int, data: bytes) -> None:
    """Writes everything, also to a descriptor that is set not to block."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(sink, view) :]
        except BlockingIOError:
            import select

            select.select([], [sink], [])


def say(text: str) -> None:
    """A line of horovodrun itself, on stderr."""
    try:
        write_all(2, f"horovodrun: {text}\n".encode("utf-8", "replace"))
    except OSError:
        pass


def rank_folder(base: str, rank: int, size: int) -> str:
    """Makes and names the folder of a rank: `rank.` and its number, as wide as the largest."""
    folder = os.path.join(base, f"rank.{rank:0{len(str(size - 1))}d}")
    os.makedirs(folder, exist_ok=True)
    return folder
