# SPDX-License-Identifier: Apache-2.0
"""Ranks of an elastic job that a signal has stopped. Others would wait for them for ever. Standard library only, see frames.py.

Such a rank is expelled first: the others go on without it, and it learns of that when it wakes. A rank that does not wake is ended
later, because a replacement needs its place.
"""

_LOOK = 1.0  # seconds between two looks
PATIENCE = 30.0  # from the expulsion of a rank to its end
_USUAL_LIMIT = 10.0
_NEVER = float("inf")


class Frozen:
    """``limit``: seconds for which a rank may stand still, as text: HOROVOD_PEER_TIMEOUT, whose 0 is for ever."""

    def __init__(self, limit):
        try:
            self.limit = float(limit) or _NEVER
        except (TypeError, ValueError):
            self.limit = _USUAL_LIMIT
        self._since = {}  # by process
        self._expelled = set()  # processes
        self._next = 0.0

    def wait(self, now):
        """Seconds until the next look."""
        return _NEVER if self.limit == _NEVER else max(0.0, self._next - now)

    def look(self, now, pids):
        """Processes that have been stopped for too long and are to be expelled, each once; and those that are to be ended."""
        if now < self._next or self.limit == _NEVER:
            return [], []
        self._next = now + _LOOK
        self._since = {pid: self._since.get(pid, now) for pid in pids if _is_stopped(pid)}
        expelled = [pid for pid, since in self._since.items() if now - since >= self.limit and pid not in self._expelled]
        self._expelled = self._expelled.intersection(pids).union(expelled)
        ended = [pid for pid, since in self._since.items() if now - since >= self.limit + PATIENCE and pid in self._expelled]
        return expelled, ended

    def forget(self):
        """Ranks may stand still for a good reason: the whole job does."""
        self._since = {}


def _is_stopped(pid):
    # Not one that a debugger holds, whose state is t.
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
