# SPDX-License-Identifier: Apache-2.0
"""Preparations, each done once per run: when a suite asks for it, or ahead of that while other suites run.

Much of what the suites test waits: for peers, for signals, for time to pass. Builds and downloads that a later suite needs
use that time. They run one after another at the lowest priority, so that what is being tested hardly notices them, until a
suite waits for one.
"""

import contextlib
import functools
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Tuple, TypeVar

from suites import count

Made = TypeVar("Made")
LOWEST = 19
_LOOK_AGAIN = 5.0  # seconds, where there is no room

_guard = threading.Lock()
_all: Dict[Tuple[object, ...], "_Preparation"] = {}
_own = threading.local()  # how many preparations this thread is in, and the seconds that it has spent in them
_durations: List[Tuple[float, str]] = []


class _Preparation:
    """One call: what it has returned or raised, and what it wrote in the background."""

    def __init__(self, make: Callable[[], object], title: str) -> None:
        self.make, self.title = make, title
        self.turn = threading.Lock()
        self.done = False
        self.value: object = None
        self.error: Optional[Exception] = None
        self.written = ""
        self.behind = 0  # the thread that is at it in the background, as Linux numbers it

    def asked(self) -> object:
        """Does it unless that is done; waits where another thread is at it."""
        if self.behind:
            _hurry(self.behind)
        with _spent(), self.turn:
            if self.written:
                print(self.written, end="", flush=True)
            self.written = ""
            if not self.done:
                self._attempt()
        if self.error:
            raise self.error
        return self.value

    def ahead(self) -> None:
        """The same, where what it writes and raises is kept for whoever asks."""
        with self.turn:
            if self.done:
                return
            with tempfile.TemporaryFile("w+") as output, count.writing_to(output, behind=True):
                self._attempt()
                output.seek(0)
                self.written += output.read()

    def _attempt(self) -> None:
        self.value = self.error = None
        began = time.monotonic()
        if count.in_background():
            self.behind = threading.get_native_id()
        try:
            self.value = self.make()
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            self.error = error
        self.behind = 0
        where = " (in the background)" if count.in_background() else ""
        _durations.append((time.monotonic() - began, self.title + where))
        # A download may break: what fails in the background is done once more for whoever asks in the foreground.
        self.done = not count.in_background() or self._went_well()

    def _went_well(self) -> bool:
        """What failed has raised, or returned nothing, or nothing and the reason."""
        return self.error is None and bool(self.value[0] if isinstance(self.value, tuple) else self.value)


@contextlib.contextmanager
def _spent() -> Iterator[None]:
    """Counts the time meanwhile as this thread's, once where one preparation asks for another."""
    began, _own.depth = time.monotonic(), getattr(_own, "depth", 0) + 1
    try:
        yield
    finally:
        _own.depth -= 1
        if not _own.depth:
            _own.waited = waited() + time.monotonic() - began


def waited() -> float:
    """The seconds that this thread has spent in preparations, its own and others' that it waited for."""
    return getattr(_own, "waited", 0.0)


def durations() -> List[Tuple[float, str]]:
    """How long each preparation has taken, with those that it asked for."""
    return list(_durations)


def once(function: Callable[..., Made]) -> Callable[..., Made]:
    """A function that does its work at the first call with the same arguments only."""

    @functools.wraps(function)
    def asked(*arguments: object, **named: object) -> Made:
        return _preparation(function, arguments, named).asked()  # type: ignore[return-value]

    asked.ahead = lambda *arguments, **named: _preparation(function, arguments, named).ahead()  # type: ignore[attr-defined]
    return asked


def _preparation(function: Callable[..., object], arguments: Tuple[object, ...], named: Dict[str, object]) -> _Preparation:
    key = (function, arguments, tuple(sorted(named.items())))
    with _guard:
        title = " ".join([function.__name__.strip("_"), *(word for word in arguments[:1] if isinstance(word, str))])
        return _all.setdefault(key, _Preparation(functools.partial(function, *arguments, **named), title))


def _hurry(thread: int) -> None:
    """Gives a thread and all that it has started the usual priority, where this user may."""
    with contextlib.suppress(PermissionError):
        for task in _tasks(os.getpid(), thread):
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, task, 0)


def _tasks(process: int, thread: int) -> Iterator[int]:
    """A thread, and after it the threads of all processes that descend from it."""
    yield thread
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for child in map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split()):
            for task in os.listdir(f"/proc/{child}/task"):
                yield from _tasks(child, int(task))


def begin(works: List[Callable[[], None]], fits: Callable[[], bool]) -> None:
    """Does these in the background, in this order, each once ``fits`` says that there is room for it. A suite that asks for
    one waits for it, or does it itself."""

    def work() -> None:
        for each in works:
            while not fits():
                time.sleep(_LOOK_AGAIN)
            # Linux counts this for a thread, and programs started by it inherit it.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
            each()

    threading.Thread(target=work, daemon=True).start()
