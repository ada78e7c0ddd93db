# SPDX-License-Identifier: Apache-2.0
"""Where other processes of this user ask a running job how it goes: a Unix socket in the abstract namespace, of which nothing is left
when this process ends, however it does.

A question is a line with a JSON object, `{"stacks": false}`; the answer is one, too, see Looks. The name of the socket says whose
job it is, and ask/jobs.py finds it in /proc/net/unix.
"""

import json
import os
import select
import socket
import struct
import time
from typing import Callable, Dict, Optional

PREFIX = "horovodrun."
_LONGEST = 1 << 12  # of a question
_MOST = 16  # connections at a time
_LIMIT = 60.0  # seconds for a question, an answer and its reader


class _Visitor:
    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.deadline = connection, time.monotonic() + _LIMIT
        self.asked = self.answer = b""


class Desk:
    """``look(stacks, done)`` begins a look at the job, which calls ``done(answer)``."""

    def __init__(self, poll, look: Callable) -> None:
        self._poll, self._look = poll, look
        self._visitors: Dict[int, _Visitor] = {}
        self._listener: Optional[socket.socket] = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # The random end is for containers that share a network and have processes of the same numbers.
            self._listener.bind(f"\0{PREFIX}{os.getuid()}.{os.getpid()}.{os.urandom(4).hex()}")
            self._listener.listen(_MOST)
            poll.register(self._listener.fileno(), select.EPOLLIN)
        except OSError:
            self._listener.close()
            self._listener = None  # nobody can ask then; the job itself needs no desk

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._visitors or (self._listener is not None and descriptor == self._listener.fileno())

    def handle(self, descriptor: int) -> None:
        """Somebody has come, has said something, or can take more of the answer."""
        visitor = self._visitors.get(descriptor)
        if visitor is None:
            self._accept()
        elif visitor.answer:
            self._write(descriptor, visitor)
        else:
            self._read(descriptor, visitor)

    def tick(self, now: float) -> Optional[float]:
        """Sends those away that take too long; returns when that will be for the next one."""
        for descriptor, visitor in list(self._visitors.items()):
            if now >= visitor.deadline:
                self._close(descriptor)
        return min((visitor.deadline for visitor in self._visitors.values()), default=None)

    def close(self) -> None:
        for descriptor in list(self._visitors):
            self._close(descriptor)
        if self._listener is not None:
            self._poll.unregister(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if peer_user(connection) not in (0, os.getuid()) or len(self._visitors) >= _MOST:
            connection.close()
            return
        connection.setblocking(False)
        self._visitors[connection.fileno()] = _Visitor(connection)
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def _read(self, descriptor: int, visitor: _Visitor) -> None:
        try:
            data = visitor.connection.recv(_LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        visitor.asked += data
        line, end, _ = visitor.asked.partition(b"\n")
        if not end:
            if not data or len(line) > _LONGEST:
                self._close(descriptor)
            return
        try:
            question = json.loads(line)
            stacks = bool(question["stacks"])
        except (ValueError, TypeError, KeyError):
            self._close(descriptor)
            return
        self._poll.modify(descriptor, 0)
        self._look(stacks, lambda answer: self._reply(descriptor, visitor, answer))

    def _reply(self, descriptor: int, visitor: _Visitor, answer: dict) -> None:
        if self._visitors.get(descriptor) is visitor:
            visitor.answer = json.dumps(answer).encode()
            self._write(descriptor, visitor)

    def _write(self, descriptor: int, visitor: _Visitor) -> None:
        try:
            while visitor.answer:
                visitor.answer = visitor.answer[visitor.connection.send(visitor.answer):]
        except BlockingIOError:
            self._poll.modify(descriptor, select.EPOLLOUT)
            return
        except OSError:
            pass  # the visitor has gone
        self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._visitors.pop(descriptor).connection.close()


def peer_user(connection: socket.socket) -> int:
    """The user whose process is on the other side."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return user
