# SPDX-License-Identifier: Apache-2.0
"""The keeper: parent of the guardian on another host, where no launcher stands behind it. Standard library only.

When the guardian is killed, the keeper kills what it had started; when the keeper is killed, the guardian does.
"""

import os
import signal

import frames
import guardian
import private_dir
import processes

_KILL_LIMIT = 2.0


def main():
    """Called by the program that remote.py sends: standard input and output are the channel to the launcher."""
    try:
        os.setsid()
    except PermissionError:
        pass  # it has a session of its own already
    alive, ours = os.pipe()
    processes.adopt_orphans()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _guard(alive)
    os.close(alive)
    signal.signal(signal.SIGTERM, lambda *_: processes.send(pid, signal.SIGTERM))  # it knows what that means
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # so that the channel ends with the guardian
    processes.set_name("hvd-keeper")
    _, status = os.waitpid(pid, 0)
    processes.kill_all(os.getpid(), processes.reap_ended, _KILL_LIMIT)
    if status != 0:
        private_dir.remove_stale(private_dir.base())
    os._exit(0 if status == 0 else 1)


def _guard(alive):
    channel = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    processes.set_name("hvd-guardian")
    processes.adopt_orphans()
    try:
        guardian.Guardian(frames.Channel(*channel), remote=True, keeper=alive).run()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)
