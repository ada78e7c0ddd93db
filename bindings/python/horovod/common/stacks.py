# SPDX-License-Identifier: Apache-2.0
"""Lets the launcher ask this process what it is doing: a signal makes it write the Python stacks of its threads to a file.

The handler is faulthandler's, which is C and needs no GIL: the stacks are written, too, while a thread that holds the GIL does
not come back from C. The launcher reads in the file's first line that the process is ready, and sends nothing otherwise, because
the signal would end a process that does not expect it.
"""

import os
import signal
import threading

_VARIABLE = "HOROVOD_STACK_FILE"
# None of those that programs use for themselves, and none that glibc has taken.
_SIGNAL = signal.SIGRTMIN + 16 if hasattr(signal, "SIGRTMIN") else None
_file = None  # open as long as the handler writes there
_owner = None  # the process that has opened it


def arm():
    """From now on, the signal makes this process write its stacks to the file that the launcher has named. Does nothing without a
    launcher, where the program uses the signal itself, and in a second call."""
    global _file, _owner
    path = os.environ.get(_VARIABLE)
    if not path or _SIGNAL is None or _owner == os.getpid() or (_owner is None and not _is_free(_SIGNAL)):
        return
    try:
        import faulthandler

        file = open(path, "ab", buffering=0)
        main = threading.main_thread().ident or 0
        file.write(f"signal {_SIGNAL} of process {os.getpid()}, whose main thread is 0x{main:016x}\n".encode())
        faulthandler.register(_SIGNAL, file=file, all_threads=True, chain=False)
    except (OSError, RuntimeError, ImportError, AttributeError):
        return  # the launcher says that there are no stacks
    _file, _owner = file, os.getpid()


def _is_free(number):
    """Whether nobody in this process, in whatever language, waits for the signal, ignores or blocks it."""
    try:
        with open("/proc/self/status") as status:
            masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigBlk:", "SigIgn:", "SigCgt:"))]
    except (OSError, ValueError, IndexError):
        return False
    return len(masks) == 3 and not any(mask >> (number - 1) & 1 for mask in masks)
