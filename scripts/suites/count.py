# SPDX-License-Identifier: Apache-2.0
"""What every suite uses: how tests are counted and timed, and how commands are run."""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Iterator, List, Mapping, Optional, Set, TextIO, Tuple

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent
JOBS = str(os.cpu_count() or 1)


class Count:
    """Tests by how they ended, why some did not run, and the seconds that each took, as far as its runner says."""

    def __init__(self, passed: int = 0, failed: int = 0, skipped: int = 0, note: str = "") -> None:
        self.passed, self.failed, self.skipped, self.note = passed, failed, skipped, note
        self.times: List[Tuple[float, str]] = []

    def add(self, other: "Count") -> "Count":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.times += other.times
        if other.note:
            self.note = f"{self.note}; {other.note}" if self.note else other.note
        return self

    def took(self, test: str, seconds: float) -> "Count":
        self.times.append((seconds, test))
        return self

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def passed_if(ok: bool) -> Count:
    return Count(passed=1) if ok else Count(failed=1)


def skipped(reason: str) -> Count:
    return Count(skipped=1, note=reason)


def lacking(what: str) -> Count:
    """A suite that cannot run for want of a tool: skipped where somebody tries things out, failed where all must be checked."""
    if os.environ.get("HVD_TEST_COMPLETE") == "1":
        return Count(failed=1, note=f"{what}, and HVD_TEST_COMPLETE=1 allows no such gap")
    return skipped(what)


@contextlib.contextmanager
def timed(total: Count, test: str) -> Iterator[None]:
    """What is done meanwhile is one test, whose seconds the total takes down."""
    began = time.monotonic()
    try:
        yield
    finally:
        total.took(test, time.monotonic() - began)


_own = threading.local()
_behind: Set[subprocess.Popen] = set()
_behind_cpu: List[float] = []
_all_over = threading.Event()
_TIME_TO_END = 10.0  # seconds


@contextlib.contextmanager
def writing_to(file: TextIO) -> Iterator[None]:
    """What this thread says and runs meanwhile writes there, and what it runs stands back behind everything else."""
    _own.output = file
    try:
        yield
    finally:
        _own.output = None


def say(line: str) -> None:
    print(line, file=getattr(_own, "output", None), flush=True)


def in_background() -> bool:
    return getattr(_own, "output", None) is not None


def run(command: List[object], **environment: str) -> bool:
    """Runs a command from the root of the repository; its output is ours."""
    sys.stdout.flush()
    return start(command, getattr(_own, "output", None), environment)


def start(command: List[object], output: Optional[TextIO], environment: Mapping[str, str]) -> bool:
    """Runs a command from the root of the repository; whether it went well. ``output``: where it writes, None for ours."""
    words = [str(word) for word in command]
    files = {"stdout": output, "stderr": subprocess.STDOUT} if output else {}
    back = in_background()
    if back and _all_over.is_set():
        return False
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **environment}, **files, start_new_session=back,
                               preexec_fn=_stand_back if back else None)  # fmt: skip
    if back:
        _behind.add(process)
    try:
        if back:
            _behind_cpu.append(_cpu_of(process.pid))
        return process.wait() == 0
    finally:
        _behind.discard(process)


def _cpu_of(child: int) -> float:
    """Waits for the end of a child, which stays for whoever takes its exit code; the processor time of it and its own."""
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def behind_cpu() -> float:
    """Processor time of what ran in the background and has ended."""
    return sum(_behind_cpu)


def _stand_back() -> None:
    """Linux shares cores between sessions, most tests are one, before it looks at the priorities of their processes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


@atexit.register
def _end_what_is_behind() -> None:
    """Interrupted, pip removes what it has unpacked, up to gigabytes; killed, it does not."""
    _all_over.set()
    for process in list(_behind):
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(_TIME_TO_END)
