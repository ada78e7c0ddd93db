# SPDX-License-Identifier: Apache-2.0
"""The last thing horovodrun prints when a job failed: who failed first, how, what it said, what became of the others."""

import re
import signal
from typing import Dict, List, Optional

from ..plan.hosts import Host, write_hosts
from .outcome import Outcome
from .rank import Rank

_OF_TRACEBACK = ("Traceback (most recent call last)", '  File "')  # the beginning of a long one is not kept


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
        f"rank {first.place.rank} failed first: {_how(first)} after {first.after:.2f} s "
        f"(host {first.place.host}, pid {first.pid})"
    ]
    if first.code == -signal.SIGKILL and out_of_memory:
        lines.append(f"  {out_of_memory}")
    if first.raised_before_stop():
        lines.append(f"  it raised {first.raised[1]}")
    lines.extend(_blamed(outcome, first))
    lines.extend(_last_words(first))
    lines.extend(_blocked(outcome, first))
    lines.extend(_others(outcome))
    return lines


def _blamed(outcome: Outcome, first: Rank) -> List[str]:
    """A rank that has left early is no failure, and yet a reason."""
    if first.blames is None or first.blames[0] < 0 or outcome.ranks[first.blames[0]].code != 0:
        return []
    return [f"  rank {first.blames[0]} had left the job before it, with exit code 0"]


def _blocked(outcome: Outcome, first: Rank) -> List[str]:
    """Who did not reach another host at the start is told who finds out why."""
    hosts: Dict[str, int] = {}
    for rank in outcome.ranks:
        hosts[rank.place.host] = hosts.get(rank.place.host, 0) + 1
    said = first.raised[1] if first.raised is not None else "\n".join(first.stderr_tail)
    if len(hosts) == 1 or not re.search(r"\binit: (waited|.*(no answer|timed out|no route|refused|unreachable))", said, re.IGNORECASE):
        return []
    listed = write_hosts(Host(name, count) for name, count in hosts.items())
    return [f"  horovodrun doctor -H {listed} says which connections between these hosts are blocked, and what to do"]


def _last_words(first: Rank) -> List[str]:
    """The end of the stderr of the rank that failed first. A traceback has been printed above: only its last lines are repeated."""
    lines = first.stderr_tail
    if not lines:
        return ["  it wrote nothing to stderr"]
    begins = [number for number, line in enumerate(lines) if line.startswith(_OF_TRACEBACK)]
    if not begins:
        head = "  last line of its stderr:" if len(lines) == 1 else f"  last {len(lines)} lines of its stderr:"
        return [head, *(f"    {line}" for line in lines)]
    said = [line for line in lines[begins[-1] + 1 :] if line and not line.startswith(" ")]
    where = f"  its traceback is above, in the lines that begin with [{first.place.rank}]<stderr>:"
    return [where] if first.raised_before_stop() else [*(f"    {line}" for line in said), where]


def _others(outcome: Outcome) -> List[str]:
    position = outcome.order.index(outcome.first_failure)
    groups: Dict[str, List[Rank]] = {"ended before": [], "failed because of": [], "ended after": []}
    for place, number in enumerate(outcome.order):
        rank = outcome.ranks[number]
        if rank.blames is not None and rank.stopped_with is None and rank.code != 0:
            groups["failed because of"].append(rank)  # perhaps it was faster to end
        else:
            groups["ended before" if place < position else "ended after"].append(rank)
    lines = []
    for how, ranks in groups.items():
        ranks = [rank for rank in ranks if rank.place.rank != outcome.first_failure]
        if ranks:
            lines.append(f"  {len(ranks)} {'rank' if len(ranks) == 1 else 'ranks'} {how} it: {_grouped(ranks)}")
    return lines


def _grouped(ranks: List[Rank]) -> str:
    groups: Dict[str, List[int]] = {}
    for rank in ranks:
        groups.setdefault(_how(rank), []).append(rank.place.rank)
    return "; ".join(
        f"{'rank' if len(numbers) == 1 else 'ranks'} {_ranges(sorted(numbers))} {how}" for how, numbers in groups.items()
    )


def _how(rank: Rank) -> str:
    sent = rank.stopped_with
    return describe_end(rank.code) + ("" if sent is None else f" after horovodrun sent {signal.Signals(sent).name}")


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
