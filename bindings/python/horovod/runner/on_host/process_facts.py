# SPDX-License-Identifier: Apache-2.0
"""What the kernel tells of a process: its state, where in the kernel it stands, the time it has computed. Standard library only, see
frames.py.
"""

import os

_TICKS = os.sysconf("SC_CLK_TCK")
GONE = "X"


class Process:
    """One look at a process. ``state`` is the kernel's letter for it; X if there is no such process."""

    def __init__(self, pid):
        self.pid, self.state, self.parent, self.session, self.cpu = pid, GONE, 0, 0, 0.0
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            self.state, self.parent, self.session = fields[0].decode(), int(fields[1]), int(fields[3])
            self.cpu = (int(fields[11]) + int(fields[12])) / _TICKS
        except (OSError, ValueError, IndexError):
            self.state = GONE

    @property
    def lives(self):
        return self.state not in "ZX"

    @property
    def answers(self):
        """Whether a signal can reach its code."""
        return self.state not in "ZXTtD"


def kernel_place(pid):
    """The function of the kernel in which the process waits; empty if it does not wait, or the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/wchan") as file:
            name = file.read().strip()
    except OSError:
        return ""
    return "" if name == "0" else name


def executable(pid):
    """The path of its program; empty if nobody may see it."""
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def signal_masks(pid):
    """The masks of signals in /proc/PID/status by their names there, as numbers."""
    return _masks(f"/proc/{pid}/status")


def threads_that_block(pid, number):
    """The threads of the process that block this signal: always, or because they are in its handler."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    return {thread for thread in threads if has(_masks(f"/proc/{pid}/task/{thread}/status").get("SigBlk", 0), number)}


def _masks(path):
    masks = {}
    try:
        with open(path) as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in ("ShdPnd", "SigBlk", "SigCgt"):
                    masks[name] = int(value, 16)
    except (OSError, ValueError):
        pass
    return masks


def has(mask, number):
    """Whether a mask has this signal."""
    return bool(mask >> (number - 1) & 1)


def uses_library(pid):
    """Whether libhvd is in the process."""
    try:
        with open(f"/proc/{pid}/maps") as file:
            return any("libhvd.so" in line for line in file)
    except OSError:
        return False
