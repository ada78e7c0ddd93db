# SPDX-License-Identifier: Apache-2.0
"""The last thing horovodrun prints when a job failed: who failed first, how, what it said, what became of the others."""

import re
import signal
from typing import Dict, List, Optional

from ..plan.hosts import Host, write_hosts
from ..view import words
from .outcome import Outcome
from .rank import Rank

_MOST_LINES = 12
_MOST_COLUMNS = 500
_NOTABLE = 0.05  # seconds for which ranks have waited
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
    """The lines of the summary of a job whose rank failed, at most 12."""
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
    rest = [*_what_it_did(first), *_what_others_did(outcome, first), *_blocked(outcome, first), *_others(outcome), *_records(outcome)]
    lines.extend(_last_words(first, _MOST_LINES - len(lines) - len(rest)))
    return [line if len(line) <= _MOST_COLUMNS else f"{line[:_MOST_COLUMNS]} …" for line in lines + rest]


def stop_block(outcome: Outcome) -> List[str]:
    """The lines about a job that was stopped from outside: what its ranks were in when that happened. None if they had done nothing, or
    only the reader of their output has gone."""
    if outcome.signal == signal.SIGPIPE:
        return []
    waits = _waits([rank for rank in outcome.ranks if rank.stopped_with is not None], words.NOTABLE)
    waiting = [rank for group in waits.values() for rank, _ in group]
    lines = [line + f" when {_signal_name(outcome.signal)} came" for line in _told(waits)[:3]]
    others = [rank for rank in outcome.ranks if rank.stopped_with is not None and rank.flight and rank not in waiting]
    if lines and others:
        lines += [f"rank {rank.place.rank} on {rank.place.host}: {words.doing({'flight': rank.flight})}" for rank in others[:4]]
        if len(others) > 4:
            lines.append(f"{len(others) - 4} more ranks were in no operation")
    return lines + [line.strip() for line in _records(outcome)]


def _what_it_did(first: Rank) -> List[str]:
    """The last operation of the rank that failed."""
    flight = first.flight
    if flight is None or (flight["last"] is None and flight["now"] is None):
        return []
    said = f"  its last completed operation was {words.operation(flight['last'])}, {words.seconds(flight['last']['ago'])} before" \
        if flight["last"] else "  it had completed no operation"
    if flight["now"]:
        said += f"; it was in {words.operation(flight['now'])} for {words.seconds(flight['now']['since'])}"
    return [said]


def _what_others_did(outcome: Outcome, first: Rank) -> List[str]:
    """Which operations the others were in, and for how long."""
    lines = _told(_waits([rank for rank in outcome.ranks if rank is not first and rank.code != 0], _NOTABLE))
    if len(lines) > 2:
        lines = [lines[0], f"{len(lines) - 1} more operations waited as well"]
    return [f"  {line}" for line in lines]


def _waits(ranks: List[Rank], notable: float) -> Dict[str, List[tuple]]:
    """By operation: the ranks that waited in it for long enough, each with the seconds."""
    groups: Dict[str, List[tuple]] = {}
    for rank in ranks:
        if rank.flight is None:
            continue
        found, waited = rank.flight["now"], 0.0
        if found is not None:
            waited = found["since"]
        elif rank.flight["failed"] is not None:
            found = rank.flight["failed"]
            waited = found["took"]
        if found is not None and waited >= notable:
            groups.setdefault(words.operation(found), []).append((rank, waited))
    return groups


def _told(waits: Dict[str, List[tuple]]) -> List[str]:
    return [f"{words.ranks(rank.place.rank for rank, _ in group)} had waited {words.seconds(max(waited for _, waited in group))} in {name}"
            for name, group in waits.items()]


def _records(outcome: Outcome) -> List[str]:
    return [f"  the last operations of every rank are in {outcome.records}"] if outcome.records else []


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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


def _last_words(first: Rank, room: int) -> List[str]:
    """The end of the stderr of the rank that failed first, in so many lines. A traceback has been printed above: only its last lines
    are repeated."""
    lines = first.stderr_tail
    if not lines:
        return ["  it wrote nothing to stderr"]
    begins = [number for number, line in enumerate(lines) if line.startswith(_OF_TRACEBACK)]
    if not begins:
        if room < 2:
            return [f"  last line of its stderr: {lines[-1]}"]
        lines = lines[-(room - 1):]
        head = "  last line of its stderr:" if len(lines) == 1 else f"  last {len(lines)} lines of its stderr:"
        return [head, *(f"    {line}" for line in lines)]
    said = [line for line in lines[begins[-1] + 1 :] if line and not line.startswith(" ")]
    where = f"  its traceback is above, in the lines that begin with [{first.place.rank}]<stderr>:"
    return [where] if first.raised_before_stop() else [*(f"    {line}" for line in (said[-(room - 1):] if room > 1 else [])), where]


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
    return "; ".join(f"{words.ranks(numbers)} {how}" for how, numbers in groups.items())


def _how(rank: Rank) -> str:
    sent = rank.stopped_with
    return describe_end(rank.code) + ("" if sent is None else f" after horovodrun sent {signal.Signals(sent).name}")


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
