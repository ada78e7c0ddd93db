# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of an elastic job ask for their place: a Unix socket in the job's folder. Standard library only, see frames.py.

Ranks and the launcher exchange lines, which core/rendezvous/membership.h explains; this process passes them on.
"""

import os
import re
import select
import socket

NAME = "members"
_LONGEST = 1 << 20  # of a line
_AT_ONCE = 1 << 16
_SENSE = re.compile(r"ask \d+ -?\d+|leave \d+|set \d+ \d+ \d+(,\d+)*|unset \d+ \d+")


class Members:
    """The connections of the ranks of this host. `said(line)` is called for each line that a rank sends."""

    def __init__(self, folder, poll, said):
        self._poll, self._said = poll, said
        self._connections = {}  # descriptor: (socket, what has arrived of a line)
        self._by_worker = {}  # number: descriptor
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        at = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{at}/{NAME}")  # a path of any length
        finally:
            os.close(at)
        self._listener.listen(256)
        poll.register(self._listener.fileno(), select.EPOLLIN)

    def __contains__(self, descriptor):
        return descriptor == self._listener.fileno() or descriptor in self._connections

    def handle(self, descriptor):
        """Something has arrived."""
        if descriptor == self._listener.fileno():
            self._accept()
        else:
            self._read(descriptor)

    def _read(self, descriptor):
        """Takes in what has arrived there; False once nothing more has."""
        connection, before = self._connections[descriptor]
        try:
            data = connection.recv(_AT_ONCE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        *lines, rest = (before + data).split(b"\n")
        self._connections[descriptor] = connection, rest
        for line in lines:
            text = line.decode("utf-8", "replace")
            if _SENSE.fullmatch(text):
                self._by_worker[int(text.split()[1])] = descriptor
                self._said(text)
        if not data or len(rest) > _LONGEST:
            self._close(descriptor)
            return False
        return True

    def _accept(self):
        # A rank asks over a new connection: what it said over the one before comes first.
        for descriptor in list(self._connections):
            while self._read(descriptor):
                pass
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        self._connections[connection.fileno()] = connection, b""
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def tell(self, worker, line):
        """Sends a line to a rank. A rank that has gone is no fault: its end is told elsewhere."""
        descriptor = self._by_worker.get(worker)
        if descriptor is None:
            return
        try:
            self._connections[descriptor][0].sendall(line.encode() + b"\n")
        except OSError:
            self._close(descriptor)

    def close(self):
        """Refuses and hears nobody any more."""
        for descriptor in list(self._connections):
            self._close(descriptor)
        self._poll.unregister(self._listener.fileno())
        self._listener.close()

    def _close(self, descriptor):
        connection, _ = self._connections.pop(descriptor)
        self._by_worker = {worker: other for worker, other in self._by_worker.items() if other != descriptor}
        self._poll.unregister(descriptor)
        connection.close()
