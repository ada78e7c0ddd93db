# SPDX-License-Identifier: Apache-2.0
"""Parts of sentences about ranks: operations, times, states, lists of ranks."""

from typing import Dict, Iterable, List

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
# From when on it is worth saying that an operation waits.
NOTABLE = 1.0


def operation(found: Dict) -> str:
    """`allreduce "loss"`, with the process set if that is not the one of all ranks."""
    name = f' "{plain(found["name"])}"' if found["name"] else ""
    of_set = f" of process set {found['set']}" if found.get("set") else ""
    return f"{found['kind']}{name}{of_set}"


def seconds(value: float) -> str:
    """`0.25 s`, `7.1 s`, `42 s`, `12 min`, `3.5 h`."""
    for size, unit in _UNITS:
        if value >= 2 * size:
            number = value / size
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{max(0.0, value):.2f} s" if value < 1 else f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def short_seconds(value: float) -> str:
    """The same in at most 6 columns."""
    return seconds(value).replace(" min", "m").replace(" ", "")


def ranges(numbers: Iterable[int]) -> str:
    """`0 2-5 7`."""
    parts: List[List[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def ranks(numbers: Iterable[int], noun: str = "rank") -> str:
    """`rank 3` or `ranks 0 2-5`."""
    listed = sorted(numbers)
    return f"{noun}{'' if len(listed) == 1 else 's'} {ranges(listed)}"


def state(facts: Dict) -> str:
    """What the process of a rank does, as the end of a sentence that begins with its number."""
    at = f" (in {facts['kernel']})" if facts.get("kernel") else ""
    busy = f", using {facts['busy']:.0%} of a core" if facts.get("busy") is not None else ""
    return {
        "computing": f"computes{busy}", "waiting": f"waits in the kernel{at}{busy}", "stopped": "is stopped by a signal (kill -CONT lets it go on)",
        "held by a debugger": "is held by a debugger", "blocked in the kernel": f"is blocked in the kernel{at}: a disk, a network folder or a driver",
    }.get(facts["state"], "has ended")


def doing(facts: Dict) -> str:
    """The last operation of a rank and what it is in now."""
    flight = facts["flight"]
    if flight is None:
        return "it keeps no records of its operations (HOROVOD_FLIGHT_RECORDER)" if facts.get("called_init") else "it has not called init"
    last = flight["last"]
    before = f"last completed {operation(last)} {seconds(last['ago'])} ago" if last else "it has completed no operation yet"
    now, left = flight["now"], flight["submitted"] - flight["completed"]
    if now:
        since = f"for {seconds(now['since'])}"
        return f"{before}; now in {operation(now)} {since}{_wait(now)}"
    if flight["state"] == 2:
        return f"{before}; it has left the job"
    if flight["failed"]:
        return f"{before}; {operation(flight['failed'])} failed {seconds(flight['failed']['ago'])} ago"
    return f"{before}; now in no operation" if left <= 0 else f"{before}; {left} {'operation' if left == 1 else 'operations'} in flight"


def _wait(now: Dict) -> str:
    if not now["planned"]:
        return ", for which not all ranks have come"
    return f", whose data it waits for from rank {now['waited_for']}" if now["waited_for"] >= 0 else ""


def plain(text: str) -> str:
    """The text without what a terminal would take for a command: names of tensors and processes are the user's."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def cut(text: str, width: int) -> str:
    """The text without its middle if it is longer than that."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head):]}" if width > 1 else text[:width]
