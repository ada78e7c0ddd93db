# SPDX-License-Identifier: Apache-2.0
"""What Linux offers to keep a family of processes together. Shared by the launcher and its guardian.

Imports nothing of this package, because the guardian runs without it.
"""

import ctypes
import errno
import os
import signal
import time
from typing import Dict, List, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong]


def adopt_orphans() -> None:
    """From now on, descendants whose parent died become children of this process instead of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Called between fork and exec: the kernel kills this process when its parent ends, however that happens."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)


def may_be_traced_by(pid: int) -> None:
    """Called between fork and exec: where Yama restricts tracing, `pid` and its descendants may look into this process."""
    _prctl(_PR_SET_PTRACER, pid, 0, 0, 0)


def stop_with_parent() -> None:
    """The kernel sends this process, and the program it becomes, SIGTERM when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def set_name(name: str) -> None:
    """The name that ps and top show."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    _prctl(_PR_SET_NAME, ctypes.cast(buffer, ctypes.c_void_p).value, 0, 0, 0)


def living_children() -> Dict[int, List[int]]:
    """The living processes of this machine, by parent."""
    children: Dict[int, List[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # ended meanwhile
            if fields[0] not in (b"Z", b"X"):
                children.setdefault(int(fields[1]), []).append(int(entry))
    return children


def descendants(ancestor: int, children: Optional[Dict[int, List[int]]] = None) -> List[int]:
    """Living processes below `ancestor`, parents before children. `children`: of living_children(), if many are asked for."""
    children = living_children() if children is None else children
    found = []
    generation = [ancestor]
    while generation:
        generation = [child for parent in generation for child in children.get(parent, ())]
        found.extend(generation)
    return found


def name_of(pid: int) -> str:
    """The command name, or "?" if the process is gone."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "?"


def send(pid: int, signum: int, to_group: bool = False) -> None:
    """Sends a signal; a process that is gone or belongs to somebody else is no error."""
    try:
        (os.killpg if to_group else os.kill)(pid, signum)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.EPERM):
            raise


def reap_ended() -> None:
    """Reaps all children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def kill_all(ancestor: int, reap, limit: float) -> List[int]:
    """Kills everything below `ancestor` until nothing is left; returns what is still there after `limit` seconds.

    A process that forks meanwhile is met again in the next round: its orphans come to `ancestor`, which must be a
    subreaper. `reap` is called after each round.
    """
    deadline = time.monotonic() + limit
    while True:
        left = descendants(ancestor)
        for pid in left:
            send(pid, signal.SIGKILL)
        reap()
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.002)
