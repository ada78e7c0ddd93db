# SPDX-License-Identifier: Apache-2.0
"""The examples `elastic` of each language: alone, as a job of fixed members, and as a job in which a rank is killed and replaced.

Every language trains the same model, whose result tells how often each step was made, and prints the decimals and the bits.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from typing import List, Optional, Tuple

from suites.count import BIN, ROOT, Count, passed_if
from suites.jobs import START, TIME_LIMIT, Member

_RESULT = re.compile(r"came to ([-\d. ]+), bits ([0-9a-f ]+), as rank \d+ of (\d+)")


def elastic(language: str, member: Member, steps: int) -> Count:
    """``steps``: so many that a process of this language can start and join meanwhile; a step lasts at least 20 ms."""
    total = Count()
    for ranks in (None, 2):
        launcher = [] if ranks is None else [BIN / "horovodrun", "-np", ranks]
        job = _Job([*launcher, *member.command], member)
        code, text = job.end()
        good = code == 0 and _agreed(text, ranks or 1, 40)
        total.add(job.judged(f"elastic in {language}, {f'{ranks} fixed ranks' if ranks else 'alone'}", good, text))
    return total.add(killed(f"elastic in {language}, a rank is killed", member, 3, 1, 1, steps))


def killed(what: str, member: Member, ranks: int, fewest: int, victim: int, steps: int, late: bool = False) -> Count:
    """A job that loses the process `victim` by kill -9 when all have begun, and gets another one. ``late``: the others have gone on
    before."""
    flags = ["-np", ranks, "--min-np", fewest]
    job = _Job([BIN / "horovodrun", *flags, *member.command, steps], member)
    pid = job.pid_of(victim, begun=ranks)
    if pid:
        os.kill(pid, signal.SIGKILL)
    code, text = job.end()
    good = code == 0 and pid is not None and _agreed(text, ranks, steps)
    # A process that starts faster than the others notice joins at the same time as they go on.
    good = good and f"worker {victim} on localhost was lost" in text
    good = good and f"worker {ranks} on localhost has joined; {ranks} ranks go on" in text
    good = good and (not late or f"{ranks - 1} ranks go on" in text)
    return job.judged(what, good, text)


def _agreed(text: str, ranks: int, steps: int) -> bool:
    """Whether all ranks have come to what all steps come to, with the same bits."""
    results = _RESULT.findall(text)
    decimals = {decimals for decimals, _bits, _size in results}
    same = len({bits for _decimals, bits, _size in results}) == 1 and {size for *_, size in results} == {str(ranks)}
    return len(results) == ranks and same and decimals == {_expected(steps)}


def _expected(steps: int) -> str:
    weights = [0.0] * 3
    for step in range(steps):
        weights = [weight - 0.05 * ((i * weight - 1) * (1 + step % 3)) for i, weight in enumerate(weights)]
    return " ".join(f"{weight:.9f}" for weight in weights)


class _Job:
    """A running command whose output can be read meanwhile."""

    def __init__(self, command: List[object], member: Member) -> None:
        self._began = time.monotonic()
        self._output = tempfile.TemporaryFile()
        environment = {**os.environ, **START, **member.environment}
        words = [str(word) for word in command]
        self._process = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=self._output, stderr=subprocess.STDOUT)

    def _text(self) -> str:
        return os.pread(self._output.fileno(), 1 << 24, 0).decode(errors="replace")

    def pid_of(self, worker: int, begun: int) -> Optional[int]:
        """The process of a worker, when so many have begun to train; None if the job ends before."""
        while self._process.poll() is None and time.monotonic() < self._began + TIME_LIMIT:
            text = self._text()
            said = re.search(rf"worker {worker} pid (\d+)", text)
            if said and text.count("begins at step") >= begun:
                return int(said[1])
            time.sleep(0.02)
        return None

    def end(self) -> Tuple[Optional[int], str]:
        """The exit code, None if the job was killed because it took too long, and what was written."""
        code = None
        try:
            code = self._process.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        text = self._text()
        self._output.close()
        return code, text

    def judged(self, what: str, good: bool, text: str) -> Count:
        print(f"   {'ok    ' if good else 'FAILED'} {what}", flush=True)
        if not good:
            print(text, flush=True)
        return passed_if(good).took(what, time.monotonic() - self._began)
