# SPDX-License-Identifier: Apache-2.0
"""What ends this program is told to whoever started it, before it leaves the job.

The other ranks notice that this one leaves, fail in their turn, and may end sooner. The line that is written here says that
this rank failed by itself, and when; the engine writes one, too, when another rank's end makes operations fail here.
"""

import os
import sys
import time

_VARIABLE = "HOROVOD_FAULT_FILE"
_LONGEST = 500
_before_ours = None


def watch():
    """From now on, an exception that nobody catches is noted. A second call does nothing."""
    global _before_ours
    if _before_ours is None:
        _before_ours = sys.excepthook
        sys.excepthook = _note_and_go_on


def note(error):
    """Writes down that this exception ends the program. What has no launcher that reads it is not written."""
    path = os.environ.get(_VARIABLE)
    if not path:
        return
    at = time.clock_gettime(time.CLOCK_MONOTONIC)
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "its text cannot be made"
    line = f"raised at {at:.9f} {type(error).__name__}{': ' if text else ''}{text[:_LONGEST]}\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode("utf-8", "backslashreplace"))
        finally:
            os.close(descriptor)
    except OSError:
        pass  # the launcher goes by the order of ends


def _note_and_go_on(kind, error, traceback):
    note(error)
    _before_ours(kind, error, traceback)
    _do_not_wait_in_mpi()


def _do_not_wait_in_mpi():
    """An mpi4py that has started MPI would end it properly, which waits for the others, who wait for this rank."""
    mpi = sys.modules.get("mpi4py.MPI")
    try:
        if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.Get_size() > 1:
            mpi._set_abort_status(1)
    except AttributeError:
        pass  # another version of mpi4py has no such thing
