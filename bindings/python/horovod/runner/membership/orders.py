# SPDX-License-Identifier: Apache-2.0
"""What the membership machine is told at its start, and what it orders."""

from typing import Dict, NamedTuple, Optional, Tuple, Union

NOT_CHANGED, REMOVED, ADDED = 0, 1, 2  # flags, as Horovod's HostUpdateResult has them


ANY_NUMBER = 1 << 20  # of ranks: as many as a job can have


class Bounds(NamedTuple):
    """What the flags of horovodrun say. Times are seconds."""

    first: int  # ranks before the job begins (-np)
    least: int  # ranks without which it waits (--min-np)
    most: int  # ranks beyond which newcomers wait (--max-np)
    patience: float = 600.0  # how long it waits for `first` or `least` ranks (--elastic-timeout)
    fixed: bool = True  # no host will ever be found beside those of the start
    resets: Optional[int] = None  # how many memberships may follow the first (--reset-limit)
    cooldown: Optional[Tuple[float, float]] = None  # how long a slot rests after a failure, shortest and longest


class Start(NamedTuple):
    """Start a process on this slot of a host."""

    worker: int
    host: str
    slot: int


class Begin(NamedTuple):
    """An epoch begins: these workers, in the order of their ranks, are the members of the job.

    ``synchronize``: their states differ, or may; rank 0 gives its own to all. ``sets``: the process sets that go on, with their
    ids and their ranks in this epoch; others had ids below ``next_set_id``.
    """

    epoch: int
    members: Tuple[int, ...]
    hosts: Tuple[str, ...]  # of each member
    synchronize: bool
    sets: Tuple[Tuple[int, Tuple[int, ...]], ...] = ()
    next_set_id: int = 1


class Changed(NamedTuple):
    """Tell these members that others are about to come (ADDED) or go (REMOVED)."""

    workers: Tuple[int, ...]
    flags: int


class Refuse(NamedTuple):
    """Tell this worker that it belongs to the job no more, and why. ``expelled``: because it stood still."""

    worker: int
    why: str
    expelled: bool = False


class End(NamedTuple):
    """The job cannot go on. ``blamed``: the worker whose end is the reason, if that is one."""

    why: str
    blamed: Optional[int]


Order = Union[Start, Begin, Changed, Refuse, End]
Slots = Dict[str, int]  # by host
