# SPDX-License-Identifier: Apache-2.0
"""What every suite uses: how tests are counted and timed, and how commands are run."""

import atexit
import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Set, TextIO, Tuple

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


_own = threading.local()  # of each thread: where it writes, whether it stands back, the processor time of what it ran
_behind: Set[subprocess.Popen] = set()
_all_over = threading.Event()
_TIME_TO_END = 10.0  # seconds
_LOOK_AGAIN = 0.02


class _Output(io.TextIOBase):
    """Standard output where each thread writes to a place of its own."""

    def __init__(self, standard: TextIO) -> None:
        self.standard = standard

    def write(self, text: str) -> int:
        return (_own_output() or self.standard).write(text)

    def flush(self) -> None:
        (_own_output() or self.standard).flush()


def share_output() -> None:
    """From now on ``print`` in a thread goes where ``writing_to`` says."""
    sys.stdout = _Output(sys.stdout)


@contextlib.contextmanager
def writing_to(file: TextIO, behind: bool = False) -> Iterator[None]:
    """What this thread says and runs meanwhile writes there. ``behind``: what it runs stands back behind everything else."""
    _own.output, _own.behind = file, behind
    try:
        yield
    finally:
        _own.output, _own.behind = None, False


def _own_output() -> Optional[TextIO]:
    return getattr(_own, "output", None)


def in_background() -> bool:
    return getattr(_own, "behind", False)


def cpu() -> float:
    """Processor time of what this thread has run to its end."""
    return getattr(_own, "cpu", 0.0)


def run(command: Sequence[object], **environment: str) -> bool:
    """Runs a command from the root of the repository; its output is ours."""
    sys.stdout.flush()
    return start(command, _own_output(), environment)


def start(command: Sequence[object], output: Optional[TextIO], environment: Mapping[str, str]) -> bool:
    """Runs a command from the root of the repository; whether it went well. ``output``: where it writes, None for ours."""
    back = in_background()
    if back and _all_over.is_set():
        return False
    process = _begin(command, output, environment, start_new_session=back, preexec_fn=_stand_back if back else None)
    if back:
        _behind.add(process)
    try:
        return _end(process, None) == 0
    finally:
        _behind.discard(process)


def captured(command: Sequence[object], timeout: float, **environment: str) -> Tuple[Optional[int], str]:
    """Runs a command from the root of the repository: its exit code, None if it took longer and was killed, and what it wrote."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = _begin(command, output, environment)
        code = _end(process, timeout)
        output.seek(0)
        text = output.read()
    return code, text if code is not None else f"{text}\nstill running after {timeout:.0f} s\n"


def _begin(command: Sequence[object], output: Optional[TextIO], environment: Mapping[str, str], **how: Any) -> subprocess.Popen:
    files = {"stdout": output, "stderr": subprocess.STDOUT} if output else {}
    return subprocess.Popen([str(word) for word in command], cwd=ROOT, env={**os.environ, **environment}, **files, **how)


def _end(process: subprocess.Popen, timeout: Optional[float]) -> Optional[int]:
    """Waits for a process and takes down its processor time; its exit code, None if it had to be killed."""
    limit = None if timeout is None else time.monotonic() + timeout
    ended = _has_ended(process, limit)
    if not ended:
        process.kill()
        _has_ended(process, None)
    # An ended process has these until its exit code is taken; they hold what its own children took.
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    _own.cpu = cpu() + sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    code = process.wait()
    return code if ended else None


def _has_ended(process: subprocess.Popen, limit: Optional[float]) -> bool:
    """Waits for the end, until the limit if there is one. The exit code stays for whoever takes it."""
    flags = os.WEXITED | os.WNOWAIT | (os.WNOHANG if limit is not None else 0)
    while not os.waitid(os.P_PID, process.pid, flags):
        if time.monotonic() > limit:
            return False
        time.sleep(_LOOK_AGAIN)
    return True


def say(line: str) -> None:
    print(line, file=_own_output(), flush=True)


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
