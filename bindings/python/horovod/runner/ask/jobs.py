# SPDX-License-Identifier: Apache-2.0
"""The running jobs of this user on this machine, and a question to one of them (job/desk.py answers)."""

import json
import os
import re
import socket
import struct
from typing import Dict, List, NamedTuple

_NAME = re.compile(r"@(horovodrun\.(\d+)\.(\d+)\.[0-9a-f]{8})$")
_LIMIT = 30.0


class AskError(Exception):
    """No answer; the text says why."""


class Found(NamedTuple):
    """A job: the process of its horovodrun, and the name of its socket."""

    pid: int
    name: str


def running() -> List[Found]:
    """The jobs whose launchers run here, in the order of their process numbers."""
    found = set()
    try:
        with open("/proc/net/unix") as file:
            for line in file:
                match = _NAME.search(line.rstrip("\n"))
                if match and int(match[2]) == os.getuid():
                    found.add(Found(int(match[3]), match[1]))
    except OSError as error:
        raise AskError(f"/proc/net/unix: {error.strerror}; the running jobs cannot be found") from None
    return sorted(found)


def ask(job: Found, stacks: bool) -> Dict:
    """The answer of a job, see Looks in job/looks.py."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_LIMIT)
        try:
            connection.connect(f"\0{job.name}")
            if peer_user(connection) != os.getuid():
                raise AskError(f"job {job.pid}: its socket belongs to another user")
            connection.sendall(json.dumps({"stacks": stacks}).encode() + b"\n")
            pieces = []
            while True:
                piece = connection.recv(1 << 16)
                if not piece:
                    break
                pieces.append(piece)
            return json.loads(b"".join(pieces))
        except socket.timeout:
            raise AskError(f"job {job.pid}: horovodrun has not answered within {_LIMIT:g} s; it may be stopped (kill -CONT {job.pid})") from None
        except OSError as error:
            raise AskError(f"job {job.pid}: {error.strerror or error}; it has ended perhaps") from None
        except ValueError:
            raise AskError(f"job {job.pid}: it ended before it had answered") from None


def peer_user(connection: socket.socket) -> int:
    """The user whose process listens there."""
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[1]
