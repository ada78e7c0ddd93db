# SPDX-License-Identifier: Apache-2.0
"""The hosts of an elastic job as a script of the user lists them, again and again while the job runs."""

import os
import select
import signal
import subprocess
import time
from typing import List, Optional

from ..plan.hosts import Host, HostError, parse_discovered
from .output import say

_INTERVAL = 1.0  # seconds from one start of the script to the next
_LIMIT = 30.0  # a script that takes longer is stuck
_MOST_OUTPUT = 1 << 20  # bytes of a stream; the rest is read and forgotten


class DiscoveryError(Exception):
    """The script failed before it had listed any host, or does not list enough of them."""


class _Run:
    """One run of the script."""

    def __init__(self, script: str, poll: select.epoll) -> None:
        # The shell, because the user may give arguments; a session of its own, so that all of it can be ended.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._poll = poll
        self.pidfd = os.pidfd_open(self._process.pid)
        self._written = {stream.fileno(): bytearray() for stream in (self._process.stdout, self._process.stderr)}
        self._open = list(self._written)
        poll.register(self.pidfd, select.EPOLLIN)
        for stream in self._open:
            os.set_blocking(stream, False)
            poll.register(stream, select.EPOLLIN)

    def read(self, stream: int) -> bool:
        """Takes what a stream has; False if there is nothing now."""
        try:
            data = os.read(stream, 1 << 16)
        except BlockingIOError:
            return False
        kept = self._written[stream]
        kept += data[: _MOST_OUTPUT - len(kept)]
        if not data:
            self._open.remove(stream)
            self._poll.unregister(stream)
        return bool(data)

    def finish(self) -> List[str]:
        """What it has written to stdout and to stderr. It has ended, or is ended now; a child of it may keep the pipes open."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in list(self._open):
            while len(self._written[stream]) < _MOST_OUTPUT and self.read(stream):
                pass
        for descriptor in (self.pidfd, *self._open):
            self._poll.unregister(descriptor)
        os.close(self.pidfd)
        self._process.stdout.close()
        self._process.stderr.close()
        return [bytes(kept).decode("utf-8", "replace") for kept in self._written.values()]

    @property
    def code(self) -> int:
        """How it ended."""
        return self._process.returncode


class Discovery:
    """Runs the script without waiting for it.

    Call ``handle`` when ``descriptor`` is ready, and ``tick`` when ``wake_at`` has come. ``slots``: of a host whose line has no number.
    A list that cannot be used changes nothing, and is told once.
    """

    def __init__(self, script: str, slots: Optional[int]) -> None:
        self._script, self._slots = script, slots
        self._poll = select.epoll()
        self.descriptor = self._poll.fileno()
        self.hosts: Optional[List[Host]] = None  # the last good list
        self.wake_at = 0.0
        self._run: Optional[_Run] = None
        self._fault: Optional[str] = None  # of the latest run
        self._began = 0.0

    def tick(self) -> None:
        """Starts the script when it is time, and ends a run that is stuck."""
        now = time.monotonic()
        if now < self.wake_at:
            return
        if self._run is not None:
            self.stop()
            self._refuse(f"it had not ended after {_LIMIT:g} s and was killed")
            self.wake_at = now + _INTERVAL
            return
        self._began, self.wake_at = now, now + _LIMIT
        self._run = _Run(self._script, self._poll)

    def handle(self) -> bool:
        """Something of the script is ready; True if it has ended, with a list that can be used."""
        for descriptor, _ in self._poll.poll(0):
            if self._run is None:
                break
            if descriptor != self._run.pidfd:
                self._run.read(descriptor)
                continue
            run, self._run = self._run, None
            self.wake_at = self._began + _INTERVAL
            return self._take(run, *run.finish())
        return False

    def stop(self) -> None:
        """Ends a run."""
        if self._run is not None:
            self._run.finish()
            self._run = None

    def wait(self, wanted: int, patience: float) -> List[Host]:
        """The first list that has so many slots. DiscoveryError if the script fails, or lists fewer for so many seconds."""
        give_up, told = time.monotonic() + patience, False
        try:
            while True:
                self.tick()
                select.select([self._poll], [], [], max(0.0, min(self.wake_at, give_up) - time.monotonic()))
                self.handle()
                if self.hosts is None and self._fault is not None:
                    raise DiscoveryError(self._fault)
                slots = sum(host.slots for host in self.hosts or ())
                if slots >= wanted:
                    return self.hosts
                if time.monotonic() >= give_up:
                    raise DiscoveryError(f"it lists {slots} slots, and {wanted} are needed; waited {patience:g} s (--elastic-timeout)")
                if self.hosts is not None and not told:
                    told = True
                    say(f"waiting for hosts: {self._script} lists {slots} slots, and {wanted} are needed")
        finally:
            self.stop()

    def _take(self, run: _Run, written: str, errors: str) -> bool:
        if run.code != 0:
            how = f"exit code {run.code}" if run.code > 0 else f"killed by signal {-run.code}"
            said = errors.strip().splitlines()[-1:]
            return self._refuse(": ".join([how, *said]))
        try:
            listed = parse_discovered(written, self._slots)
        except HostError as error:
            return self._refuse(str(error))
        if not listed and self.hosts:
            return self._refuse("it lists no host")
        self._fault, self.hosts = None, listed
        return True

    def _refuse(self, why: str) -> bool:
        if self.hosts is not None and self._fault is None:
            say(f"host discovery script {self._script}: {why}; the hosts that it listed before stay in use")
        self._fault = why
        return False
