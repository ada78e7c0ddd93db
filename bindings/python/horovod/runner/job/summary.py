# SPDX-License-Identifier: Apache-2.0
"""The last thing horovodrun prints when a job failed: who failed first, how, what it said, what became of the others."""

import signal
from typing import Dict, List, Optional

from .outcome import Outcome, Rank


def describe_end(code: int) -> str:
    """`exit code 3` or `killed by signal 9 (SIGKILL)`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "no standard signal"
    return f"killed by signal {-code} ({name})"


class OutOfMemoryWatch:
    """Counts of processes that the kernel killed for memory, before and after the job."""

    def __init__(self) -> None:
        self._before = _out_of_memory_kills()

    def evidence(self) -> Optional[str]:
        """A sentence with numbers if a count rose since this object was made, else None."""
        for place, count in _out_of_memory_kills().items():
            before = self._before.get(place, 0)
            if count > before:
                return f"out of memory? {place}: oom_kill went from {before} to {count} while the job ran"
        return None


def failure_block(outcome: Outcome, out_of_memory: Optional[str] = None) -> List[str]:
    """The lines of the summary of a job whose rank failed."""
    first = outcome.ranks[outcome.first_failure]
    lines = [
        f"rank {first.place.rank} failed first: {describe_end(first.code)} after {first.after:.2f} s "
        f"(host {first.place.host}, pid {first.pid})"
    ]
    if first.code == -signal.SIGKILL and out_of_memory:
        lines.append(f"  {out_of_memory}")
    if first.stderr_tail:
        count = len(first.stderr_tail)
        lines.append(f"  last {count} lines of its stderr:" if count > 1 else "  last line of its stderr:")
        lines.extend(f"    {line}" for line in first.stderr_tail)
    else:
        lines.append("  it wrote nothing to stderr")
    lines.extend(_others(outcome))
    return lines


def _others(outcome: Outcome) -> List[str]:
    position = outcome.order.index(outcome.first_failure)
    before, after = outcome.order[:position], outcome.order[position + 1 :]
    lines = []
    for verb, ranks in (("before", before), ("after", after)):
        if ranks:
            noun = "rank" if len(ranks) == 1 else "ranks"
            lines.append(f"  {len(ranks)} {noun} ended {verb} it: {_grouped([outcome.ranks[rank] for rank in ranks])}")
    return lines


def _grouped(ranks: List[Rank]) -> str:
    groups: Dict[str, List[int]] = {}
    for rank in ranks:
        how = describe_end(rank.code)
        if rank.stopped_with is not None:
            how += f" after horovodrun sent {signal.Signals(rank.stopped_with).name}"
        groups.setdefault(how, []).append(rank.place.rank)
    return "; ".join(
        f"{'rank' if len(numbers) == 1 else 'ranks'} {_ranges(sorted(numbers))} {how}" for how, numbers in groups.items()
    )


def _ranges(numbers: List[int]) -> str:
    """`0 2-5 7`."""
    parts: List[List[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _out_of_memory_kills() -> Dict[str, int]:
    """Counters of the kernel by where they count: this control group and the whole machine."""
    counts = {}
    try:
        with open("/proc/self/cgroup") as file:
            groups = [line.strip().split(":", 2) for line in file]
        for _, controllers, path in groups:
            if controllers == "":
                counts.update(_read_counter(f"control group {path}", f"/sys/fs/cgroup{path}/memory.events"))
            elif "memory" in controllers.split(","):
                counts.update(_read_counter(f"control group {path}", f"/sys/fs/cgroup/memory{path}/memory.oom_control"))
    except OSError:
        pass
    counts.update(_read_counter("this machine", "/proc/vmstat"))
    return counts


def _read_counter(place: str, file_name: str) -> Dict[str, int]:
    try:
        with open(file_name) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return {place: int(line.split()[1])}
    except OSError:
        pass
    return {}
