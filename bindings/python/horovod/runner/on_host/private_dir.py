# SPDX-License-Identifier: Apache-2.0
"""The private directory of a job, where its ranks meet: made at the start, removed at the end.

A launcher that was killed cannot remove its own, so the next launcher of the same user does. The name says whose it is
(pid and start time); a lock held for life says that the owner lives, also across containers that share a directory.
"""

import fcntl
import os
import re
import stat
import time

_NAME = re.compile(r"horovod-(\d+)-(\d+)-\w+")
_LOCK = "lock"
# A directory without a lock file this young may belong to a launcher that is just making it.
_SECONDS_TO_LOCK = 60


class PrivateDir:
    """A directory only this user can enter. `path` is valid until remove()."""

    def __init__(self) -> None:
        folder = base()
        remove_stale(folder)
        pid = os.getpid()
        # Not tempfile: importing it would take longer than everything else here.
        self.path = os.path.join(folder, f"horovod-{pid}-{start_time(pid)}-{os.urandom(8).hex()}")
        os.mkdir(self.path, 0o700)
        self._lock = os.open(os.path.join(self.path, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def rendezvous(self) -> str:
        """The URL of a folder inside where the ranks find each other."""
        folder = os.path.join(self.path, "rendezvous")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return f"file://{folder}"

    def remove(self) -> None:
        """Removes the directory and what is in it; a second call does nothing."""
        if self._lock >= 0:
            remove_tree(self.path)
            os.close(self._lock)
            self._lock = -1


def start_time(pid: int) -> int:
    """When the process started, in clock ticks after boot; 0 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def remove_stale(base: str) -> None:
    """Removes what launchers of this user that no longer live left in `base`."""
    try:
        names = os.listdir(base)
    except OSError:
        return
    for name in names:
        match = _NAME.fullmatch(name)
        if match and start_time(int(match.group(1))) != int(match.group(2)):
            path = os.path.join(base, name)
            if _is_abandoned(path):
                remove_tree(path)


def remove_tree(path: str) -> None:
    """Removes a directory tree without following links; what cannot be removed stays."""
    for folder, subfolders, files in os.walk(path, topdown=False):
        for name in files:
            _try(os.unlink, os.path.join(folder, name))
        for name in subfolders:
            target = os.path.join(folder, name)
            _try(os.unlink if os.path.islink(target) else os.rmdir, target)
    _try(os.rmdir, path)


def base() -> str:
    """Where private directories of this user lie."""
    for base in (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR")):
        if base and os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK):
            return os.path.abspath(base)
    return "/tmp"


def _is_abandoned(path: str) -> bool:
    try:
        info = os.lstat(path)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            return False
        try:
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return time.time() - info.st_mtime > _SECONDS_TO_LOCK
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(lock)
    except OSError:
        return False


def _try(call, path: str) -> None:
    try:
        call(path)
    except OSError:
        pass
