# SPDX-License-Identifier: Apache-2.0
"""The output streams of all ranks: two pipes for each rank here, two senders of frames for each rank elsewhere."""

import os
from typing import Callable, Dict, List, Optional, Tuple

from ..on_host import frames
from ..plan.hosts import Place
from .output import RankStream, rank_folder
from .tracebacks import Tracebacks

NAMES = {1: "stdout", 2: "stderr"}


class Streams:
    """Forwards output until every stream has ended. `on_gone` is called when ours cannot be written any more."""

    def __init__(self, folder: Optional[str], timestamp: bool, on_gone: Callable[[OSError], None]) -> None:
        self._folder, self._timestamp, self._on_gone = folder, timestamp, on_gone
        self._open: Dict[Tuple[int, int], RankStream] = {}  # by rank and 1 or 2
        self._by_pipe: Dict[int, RankStream] = {}
        self._tails = {}
        self._tracebacks = Tracebacks()

    def __len__(self) -> int:
        return len(self._open)

    def pipes(self, place: Place) -> Tuple[List[int], List[int]]:
        """Two pipes for a rank of this machine: the ends to read from and to write to."""
        readers, writers = [], []
        for number in NAMES:
            read, write = os.pipe()
            readers.append(read)
            writers.append(write)
            self._by_pipe[read] = self._add(place, number, read)
        return readers, writers

    def expect(self, place: Place) -> None:
        """The streams of a rank elsewhere."""
        for number in NAMES:
            self._add(place, number, -1)

    def _add(self, place: Place, number: int, pipe: int) -> RankStream:
        copy_to = None
        if self._folder:
            copy_to = os.path.join(rank_folder(self._folder, place.rank, place.size), NAMES[number])
        made = RankStream(place.rank, NAMES[number], pipe, number, self._timestamp, copy_to,
                          self._tracebacks if number == 2 else None)
        self._open[place.rank, number] = made
        self._tails[place.rank, number] = made.tail
        return made

    def has_pipe(self, descriptor: int) -> bool:
        return descriptor in self._by_pipe

    def forward(self, pipe: int) -> bool:
        """Forwards what is in a pipe; False once it has ended."""
        stream, more = self._by_pipe[pipe], True
        try:
            more = stream.read()
        except OSError as error:
            self._on_gone(error)
        return more

    def tick(self, now: float) -> Optional[float]:
        """Prints what has been held for too long; returns when that will be for the next one."""
        limits = []
        for rank in sorted(self._tracebacks.holding):
            try:
                limits.append(self._open[rank, 2].tick(now))
            except OSError as error:
                self._on_gone(error)
        return min((limit for limit in limits if limit is not None), default=None)

    def end_pipe(self, pipe: int) -> None:
        """Closes a pipe that has ended."""
        stream = self._by_pipe.pop(pipe)
        self._close(stream.rank, stream.sink)

    def receive(self, payload: bytes, ranks: List[int]) -> None:
        """An OUTPUT frame of an agent that has these ranks."""
        rank, number, data = frames.read_output(payload)
        stream = self._open.get((rank, number)) if rank in ranks else None
        if stream is None:
            return
        if not data:
            self._close(rank, number)
            return
        try:
            stream.feed(data)
        except OSError as error:
            self._on_gone(error)

    def end_ranks(self, ranks: List[int]) -> None:
        """Nothing more comes from these ranks elsewhere: their unfinished lines go out."""
        for rank in ranks:
            for number in NAMES:
                self._close(rank, number)

    def close(self) -> None:
        """Gives up what is still open."""
        for rank, number in list(self._open):
            self._close(rank, number)
        self._by_pipe.clear()

    def stderr_tail(self, rank: int) -> List[str]:
        tail = self._tails.get((rank, 2))
        return tail.lines() if tail else []

    def _close(self, rank: int, number: int) -> None:
        stream = self._open.pop((rank, number), None)
        if stream is not None:
            try:
                stream.close()
            except OSError as error:
                self._on_gone(error)


def raise_file_limit(ranks: int, agents: int) -> Optional[List[int]]:
    """Makes room for pipes and connections; returns the limits the ranks shall keep, if they had to be changed."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = 6 * ranks + 4 * agents + 64
    if soft == resource.RLIM_INFINITY or soft >= need:
        return None
    if hard != resource.RLIM_INFINITY and hard < need:
        raise OSError(f"{ranks} processes need {need} open files, the limit is {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
    return [soft, hard]
