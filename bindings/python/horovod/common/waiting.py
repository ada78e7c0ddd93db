# SPDX-License-Identifier: Apache-2.0
"""Why init waits where that is easily overlooked: in a process that a rank has started beside itself."""

import os
import sys
import threading

_VARIABLE = "HOROVOD_INIT_PID"
_PATIENCE = 5.0


class SayWhy:
    """In a with block around what waits. Says after a while, once, that this process is not the rank itself."""

    def __enter__(self):
        self._timer = None
        parent = os.environ.get(_VARIABLE, "")
        if parent.isdigit() and int(parent) != os.getpid() and "HOROVOD_RANK" in os.environ:
            self._timer = threading.Timer(_PATIENCE, _say, (parent,))
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, kind, *_):
        if self._timer is not None:
            self._timer.cancel()
        if kind is None and "HOROVOD_RANK" in os.environ:
            os.environ[_VARIABLE] = str(os.getpid())  # for the processes that this one starts


def _say(parent):
    rank = os.environ["HOROVOD_RANK"]
    sys.stderr.write(
        f"horovod: init waits in process {os.getpid()}: it was started by process {parent}, which has called init as rank {rank} "
        "already. Such a process joins a job of its own with those that the other ranks start; if this rank alone starts one, "
        "remove HOROVOD_RANK, HOROVOD_SIZE and HOROVOD_RENDEZVOUS from its environment, or do not call init there\n"
    )
