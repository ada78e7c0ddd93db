# SPDX-License-Identifier: Apache-2.0
"""Why a rank is late: one of eight classes of cause, from what its processor and its operations did more than the others'.

A rank's excess is the time per step that it spends by itself beyond the median of the others. The kernel divides that time: the main
thread ran, or it was ready and no core was free, or it slept. Where cores are short for all ranks, a thread that runs longer is queued
longer too, in proportion, which is no neighbour's fault. The largest part decides:

| the main thread | and | class |
|---|---|---|
| was in many small operations of a process set of its own | | storm of small tensors |
| did not run | another thread of the rank did, and the main thread woke again and again to ask for the GIL | GIL hog |
| was ready, but no core was free | | busy neighbour |
| ran, largely in the kernel | with many page faults | page faults |
| ran | | slow compute |
| slept | | sleeping data loader |
"""

from typing import List, NamedTuple, Optional

from .facts import Facts
from .records import Operation
from .timeline import MANY

SLOW_COMPUTE = "slow compute"
BUSY_NEIGHBOUR = "busy neighbour"
GIL_HOG = "GIL hog"
SLEEPING_LOADER = "sleeping data loader"
SLOW_LINK = "slow link"
LOSSY_LINK = "lossy link"
STORM = "storm of small tensors"
PAGE_FAULTS = "page faults"
UNKNOWN = "late for a reason of its own"

SMALL = 64 << 10  # bytes of an operation whose costs are those of any operation, not those of its bytes
_FAULT = 1_000_000  # ns that a page fault costs at most: the kernel clears a huge page
_SURELY_GIL = 300.0  # such wakes per second say it even of a hog that gets little of its core
_GIL_WAKES = 100.0  # times per second of sleep; a thread that waits for the GIL wakes every 5 ms (sys.getswitchinterval)


class Cause(NamedTuple):
    """``name``: one of the classes. ``reason``: a clause that goes on after "Rank 2 is late: it"."""

    name: str
    reason: str
    advice: str


def of_own_time(late: float, own_operations: float, small: "Small", more: Optional[Facts]) -> Cause:
    """The class of a rank's excess, and a clause that says why.

    ``late``: ns of the excess per step. ``own_operations``: the part of it in process sets of one member, with the operations `small`.
    ``more``: what the kernel counted beyond the other ranks' (facts.excess); None without samples.
    """
    if own_operations >= 0.4 * late and small.count >= MANY:
        return Cause(
            STORM,
            f"is busy with {small.count:.0f} small operations a step of its own (usually {_bytes(small.bytes)}), "
            f"which take {_ms(own_operations)}",
            "Put the tensors of these operations together (grouped_allreduce, or one larger tensor), or do them less often.",
        )
    if more is None:
        return Cause(
            UNKNOWN,
            "does something of its own for longer than the others",
            "There are no samples.jsonl of this job, so whether the rank computes, sleeps, or waits for a core is not known.",
        )
    ran = max(0.0, more.main.cpu)
    # Cores that are busy everywhere make a thread wait the longer, the more it runs: that much is not a neighbour of this rank's.
    queued = more.main.queued - ran * more.usual_queue
    asleep = late - ran - more.main.queued - own_operations
    largest = max(ran, queued, asleep)
    if more.main.major >= 1 and asleep == largest:
        return _faults(more, asleep)
    blocked = max(0.0, asleep) + max(0.0, queued)
    if largest != ran and _wants_the_lock(blocked, late, more):
        return Cause(
            GIL_HOG,
            f"waits {_ms(blocked)} a step for Python's lock (the GIL), while another thread of the process runs",
            f"Look at the rank's Python threads ({more.busiest} has most of the time); move what they do to a process of its own.",
        )
    if largest == queued:
        return Cause(
            BUSY_NEIGHBOUR,
            f"is ready to run for {_ms(queued)} a step in which no core is free for it",
            "See with top which process has its cores; give the rank others, or start fewer threads and ranks on the host.",
        )
    if largest == ran:
        if more.main.minor * _FAULT >= more.main.system >= 0.3 * ran:
            return _faults(more, more.main.system)
        return Cause(
            SLOW_COMPUTE,
            f"computes for {_ms(ran)} a step longer than the others{_short_of_cores(ran, more.main.queued)}",
            "Compare the rank's work with the others' (larger batch, longer sequences, extra work such as logging?), and its core's speed.",
        )
    return Cause(
        SLEEPING_LOADER,
        f"sleeps {_ms(asleep)} a step longer than the others before it submits anything, as in waiting for data",
        "Look at what feeds this rank: the data loader's workers, the file system, a server.",
    )


class Small(NamedTuple):
    """A rank's operations in process sets of its own, per step."""

    count: float
    bytes: float  # usual size


def small_operations(operations: List[Operation], steps: int) -> Small:
    """Those of the operations that are small, per step."""
    sizes = sorted(operation.bytes for operation in operations if operation.bytes <= SMALL)
    return Small(len(sizes) / steps, sizes[len(sizes) // 2] if sizes else 0)


def _wants_the_lock(blocked: float, late: float, more: Facts) -> bool:
    """Whether the main thread asks for the GIL again and again, while another thread of the rank runs, or would if a core were free."""
    hog, wakes = more.others + max(0.0, more.others_queued), more.main.slept / max(1.0, blocked) * 1e9
    active = hog >= 0.4 * blocked or wakes >= _SURELY_GIL
    return blocked >= 0.3 * late and more.others >= 0.15 * blocked and active and wakes >= _GIL_WAKES


def _faults(more: Facts, time: float) -> Cause:
    kind = (
        f"{more.main.major:.0f} page faults a step from the disk" if more.main.major >= 1 else f"{more.main.minor:.0f} page faults a step"
    )
    return Cause(
        PAGE_FAULTS,
        f"takes {kind} more than the others, which cost {_ms(time)} in the kernel",
        "Keep buffers instead of allocating them in each step (pinned or reused tensors, MALLOC_TRIM_THRESHOLD_), or add memory.",
    )


def _short_of_cores(ran: float, queued: float) -> str:
    if queued < ran / 2:
        return ""
    return f", and is queued {_ms(queued)} longer because cores are short for all ranks of the host"


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.1f} ms"


def _bytes(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
