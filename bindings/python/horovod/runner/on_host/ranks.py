# SPDX-License-Identifier: Apache-2.0
"""The living ranks of a host, as processes. Standard library only, see frames.py."""

import os
import select


class Ranks:
    """By process, each with the number that the launcher gave it."""

    def __init__(self, poll):
        self._poll = poll
        self._numbers = {}  # by pid
        self._pidfds = {}  # pidfd: pid

    def __iter__(self):
        """The process numbers. None is reaped yet, so a group of this number is certainly still theirs."""
        return iter(self._numbers)

    def __len__(self):
        return len(self._numbers)

    def numbers(self):
        """Which ranks live."""
        return list(self._numbers.values())

    def number_of(self, pid):
        """The rank that the process is."""
        return self._numbers[pid]

    def add(self, pid, number):
        """A rank has been started."""
        self._numbers[pid] = number
        pidfd = os.pidfd_open(pid)
        self._pidfds[pidfd] = pid
        self._poll.register(pidfd, select.EPOLLIN)

    def watches(self, descriptor):
        """Whether the descriptor tells of the end of a rank."""
        return descriptor in self._pidfds

    def take_ended(self, pidfd):
        """The number of the rank whose end the descriptor tells of, and its status."""
        pid = self._pidfds[pidfd]
        self._close(pidfd)
        _, status = os.waitpid(pid, 0)
        return self._numbers.pop(pid), status

    def _close(self, pidfd):
        del self._pidfds[pidfd]
        self._poll.unregister(pidfd)
        os.close(pidfd)

    def forget(self):
        """Nothing is known of any rank any more."""
        self._numbers.clear()
        for pidfd in list(self._pidfds):
            self._close(pidfd)

    def reap_adopted(self):
        """Reaps adopted processes, and leaves ranks to ``take_ended``, which knows their order."""
        try:
            while True:
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if child is None or child.si_pid in self._numbers:
                    return
                os.waitpid(child.si_pid, 0)
        except ChildProcessError:
            pass

    def reap_everything(self, report_end):
        """Reaps what kill_all has killed. ``report_end(number, status)`` is called for ranks."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                number = self._numbers.pop(pid, None)
                if number is not None:
                    self._close(next(pidfd for pidfd, of in self._pidfds.items() if of == pid))
                    report_end(number, status)
        except ChildProcessError:
            pass
