# SPDX-License-Identifier: Apache-2.0
"""What a run says at its end: how long each suite and each preparation took, and the slowest tests of all suites."""

import resource
import subprocess
import time
from typing import Callable, List, Tuple

from suites import ahead
from suites.count import Count, behind_cpu

SLOWEST = 10
_LONG = 20.0  # seconds: shorter preparations are not worth a line


class Report:
    """The suites of one run, in its order."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.total = Count()
        self.lines: List[str] = []
        self.tests: List[Tuple[float, str]] = []

    def run(self, name: str, suite: Callable[[], Count]) -> None:
        """Runs a suite and says how it went. What it raises becomes a failed test."""
        print(f"\n== {name}", flush=True)
        began, waited, cpu = time.monotonic(), ahead.waited(), _cpu()
        try:
            count = suite()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            count = Count(failed=1, note=f"{type(error).__name__}: {error}")
        seconds = (time.monotonic() - began, ahead.waited() - waited, _cpu() - cpu)
        row = [f"{name:12} " + " ".join(f"{each:7.0f}" for each in seconds) + f"   {count}"]
        row += [f"{'':39}{note}" for note in count.note.split("; ") if note]
        print(*row, sep="\n", flush=True)
        self.lines += row
        self.tests += [(each, f"{name}: {test}") for each, test in count.times]
        self.total.add(Count(count.passed, count.failed, count.skipped))

    def say(self) -> None:
        """The tables, then the line that counts."""
        print(f"\n== all, {time.monotonic() - self.began:.0f} s", _HEAD, *self.lines, sep="\n")
        long = [each for each in ahead.durations() if each[0] >= _LONG]
        if long:
            print("\npreparations, in seconds; those in the background ran while suites did")
            print(*[f"{each:7.0f}   {what}" for each, what in sorted(long, reverse=True)], sep="\n")
        if self.tests:
            print("\nslowest tests, in seconds")
            print(*[f"{each:7.1f}   {test}" for each, test in sorted(self.tests, reverse=True)[:SLOWEST]], sep="\n")
        print(f"\n{self.total}", flush=True)


# Per suite: its seconds, how many of them it waited for builds and environments, and the processor time of all it started.
_HEAD = f"{'':12} seconds prepare     CPU"


def _cpu() -> float:
    """Processor time of what suites have run until now, without what ran in the background meanwhile."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime - behind_cpu()
