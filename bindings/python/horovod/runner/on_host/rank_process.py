# SPDX-License-Identifier: Apache-2.0
"""Starts the process of a rank, as a child of the guardian. Standard library only, see frames.py."""

import os
import signal

import processes

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


def start(command, environment, stdout, stderr, file_limit):
    """The new process and 0, or an error number of exec. The caller has one thread, so forking is safe."""
    guardian = os.getpid()
    failure_read, failure_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become(command, environment, stdout, stderr, file_limit, guardian)
        except OSError as error:
            os.write(failure_write, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(failure_write)
    failure = os.read(failure_read, 16)  # ends empty when exec closes the other end
    os.close(failure_read)
    if failure:
        os.waitpid(pid, 0)
    return pid, int(failure or 0)


def _become(command, environment, stdout, stderr, file_limit, guardian):
    os.setsid()  # a session of its own, so that a signal to its group reaches all it starts
    processes.die_with_parent(guardian)
    processes.may_be_traced_by(guardian)  # for the native frames of a rank that hangs
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for number in _HANDLED:
        if number in (signal.SIGPIPE, signal.SIGXFSZ) or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    if file_limit:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(file_limit))
    os.execvpe(command[0], command, environment)
