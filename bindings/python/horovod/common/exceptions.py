# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the package, by what is broken: the call, one operation, one process set, or the whole context."""

import re

from horovod._native import constants

__all__ = [
    "HorovodDismissedError",
    "HorovodInternalError",
    "HorovodMismatchError",
    "HorovodPeerLostError",
    "HorovodSetBrokenError",
    "HorovodShutDownError",
    "HorovodTimeoutError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
]


class HorovodInternalError(RuntimeError):
    """An operation failed, or the context cannot go on.

    Attributes: ``status`` (number of ``hvd.h``), ``status_name``, ``rank`` (the rank at fault, -1 if none or unknown),
    ``sys_errno`` (0 if no system call failed), ``operation`` (its name, its kind if it has none, or None).
    """

    def __init__(self, message="", status=-80, rank=-1, sys_errno=0, operation=None):
        super().__init__(message)
        _set_fields(self, status, rank, sys_errno, operation)


class HorovodMismatchError(HorovodInternalError):
    """Ranks disagree about an operation; the message has what each said. Only this operation failed."""


class HorovodTimeoutError(HorovodInternalError):
    """The operation's time ran out; the message names the missing ranks. Only this operation failed."""


class HorovodSetBrokenError(HorovodInternalError):
    """The process set can not be used any more; other sets can."""


class HorovodPeerLostError(HorovodInternalError):
    """A rank died or closed its connection. The context is broken: shut down, then init again.

    ``rank``, ``host`` and ``pid`` say which one; ``host`` and ``pid`` are None if the message does not have them.
    """

    def __init__(self, message="", status=-60, rank=-1, sys_errno=0, operation=None):
        super().__init__(message, status, rank, sys_errno, operation)
        place = re.search(r"rank (\d+) \(host (.*?), pid (\d+)\)", message)
        self.host = place.group(2) if place else None
        self.pid = int(place.group(3)) if place else None
        if place and self.rank < 0:
            self.rank = int(place.group(1))


class HorovodShutDownError(HorovodInternalError):
    """This rank or another one has shut down."""


class HorovodDismissedError(HorovodInternalError):
    """An elastic job gives this process no place any more; the message says why."""


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of an elastic job changed. ``skip_sync`` is true if no state needs to be sent to new ranks."""

    def __init__(self, skip_sync=False):
        super().__init__("hosts updated")
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """A part that was found has another version than the one this package works with."""

    def __init__(self, name, version, installed_version):
        super().__init__(f"{name}: version {installed_version} is installed, {version} is needed")
        self.name = name
        self.version = version
        self.installed_version = installed_version


_CLASSES = {
    -1: ValueError,
    -3: ValueError,
    -4: ValueError,
    -5: NotImplementedError,
    -7: MemoryError,
    -20: HorovodMismatchError,
    -22: HorovodTimeoutError,
    -40: HorovodSetBrokenError,
    -60: HorovodPeerLostError,
    -62: HorovodShutDownError,
    -64: HorovodDismissedError,
}


def from_status(status, rank, sys_errno, message, operation=None):
    """The exception for a status of ``hvd.h``. Those that are not of this module have the same attributes."""
    cls = _CLASSES.get(status, HorovodInternalError)
    if issubclass(cls, HorovodInternalError):
        return cls(message, status, rank, sys_errno, operation)
    error = cls(message)
    _set_fields(error, status, rank, sys_errno, operation)
    return error


def mismatch(message):
    """The exception for what ranks found to disagree about after the engine had brought it together."""
    return from_status(-20, -1, 0, message)


def _set_fields(error, status, rank, sys_errno, operation):
    error.status = status
    error.status_name = constants.STATUS_NAMES.get(status, "HVD_ERR_UNKNOWN")
    error.rank = rank
    error.sys_errno = sys_errno
    error.operation = operation
