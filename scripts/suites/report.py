# SPDX-License-Identifier: Apache-2.0
"""Runs suites, in one lane or in two at the same time, and says at the end how long each suite and each preparation took, and which
tests of all suites were the slowest."""

import contextlib
import tempfile
import threading
import time
import traceback
from typing import Callable, Dict, List, Tuple

from suites import ahead, count
from suites.count import Count

Suite = Callable[[], Count]
SLOWEST = 10
_LONG = 20.0  # seconds: shorter preparations are not worth a line
# Per suite: its seconds, how many of them it waited for builds and environments, and the processor time of all it started.
_HEAD = f"{'':12} seconds prepare     CPU"


class Report:
    """The suites of one run, in their order."""

    def __init__(self, names: List[str]) -> None:
        self.names = names
        self.began = time.monotonic()
        self.total = Count()
        self.rows: Dict[str, List[str]] = {}
        self.tests: List[Tuple[float, str]] = []
        self.guard = threading.Lock()

    def run(self, name: str, suite: Suite) -> None:
        """Runs a suite and says how it went. What it raises becomes a failed test."""
        print(f"\n== {name}", flush=True)
        began, waited, cpu = time.monotonic(), ahead.waited(), count.cpu()
        try:
            counted = suite()
        except Exception as error:  # the other suites are to run whatever is wrong with this one
            print(traceback.format_exc())
            counted = Count(failed=1, note=f"{type(error).__name__}: {error}")
        seconds = (time.monotonic() - began, ahead.waited() - waited, count.cpu() - cpu)
        row = [f"{name:12} " + " ".join(f"{each:7.0f}" for each in seconds) + f"   {counted}"]
        row += [f"{'':39}{note}" for note in counted.note.split("; ") if note]
        print(*row, sep="\n", flush=True)
        with self.guard:
            self.rows[name] = row
            self.tests += [(each, f"{name}: {test}") for each, test in counted.times]
            self.total.add(Count(counted.passed, counted.failed, counted.skipped))

    def run_behind(self, name: str, suite: Suite) -> None:
        """The same beside the suites of another thread: what it writes is shown when it has ended."""
        with tempfile.TemporaryFile("w+") as output:
            with count.writing_to(output):
                self.run(name, suite)
            output.seek(0)
            print(output.read(), end="", flush=True)

    def say(self) -> None:
        """The tables, then the line that counts. A suite that has not run to its end has failed."""
        lines = [line for name in self.names for line in self.rows.get(name, [f"{name:12} has not run to its end"])]
        self.total.failed += sum(name not in self.rows for name in self.names)
        print(f"\n== all, {time.monotonic() - self.began:.0f} s", _HEAD, *lines, sep="\n")
        long = [each for each in ahead.durations() if each[0] >= _LONG]
        if long:
            print("\npreparations, in seconds; those in the background ran while suites did")
            print(*[f"{each:7.0f}   {what}" for each, what in sorted(long, reverse=True)], sep="\n")
        if self.tests:
            print("\nslowest tests, in seconds")
            print(*[f"{each:7.1f}   {test}" for each, test in sorted(self.tests, reverse=True)[:SLOWEST]], sep="\n")
        print(f"\n{self.total}", flush=True)


@contextlib.contextmanager
def beside(work: Callable[[], None]):
    """Does the work in a thread of its own meanwhile, and waits for its end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join()
