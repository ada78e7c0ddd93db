# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows about the TCP connections of this host (sock_diag(7)). Standard library only, see frames.py.

A slow link is a connection that needs long for its bytes, and a lossy link sends them again and again. The kernel counts both for each
connection and tells any user, without the help of the process whose connection it is. Where the kernel does not answer (no
CONFIG_INET_DIAG, or a sandbox), there are no links in the samples, and a report says that it knows nothing of them.
"""

import os
import socket
import struct

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_ESTABLISHED = 1
_INFO = 2  # INET_DIAG_INFO
_HEAD = struct.Struct("=IHHII")  # nlmsghdr
_MESSAGE = 72  # bytes of inet_diag_msg
_LIMIT = 0.2  # seconds for the kernel's answer
# Of struct tcp_info, which only grows at its end: total_retrans, bytes_acked, bytes_received, min_rtt, data_segs_out, busy_time.
_TCP_INFO = struct.Struct("=68xI28xI16xQQ12xI4xI8xQ")


class Link:
    """One connection of this host. ``key``: ("address:port" here, "address:port" of the peer)."""

    __slots__ = ("key", "inode", "counters", "rtt", "min_rtt")

    def __init__(self, key, inode, counters, rtt, min_rtt):
        self.key, self.inode, self.counters, self.rtt, self.min_rtt = key, inode, counters, rtt, min_rtt

    def since(self, before):
        """What happened since ``before``, as a dict: bytes `acked` and `received`, segments `sent` and `resent`, ns `busy`."""
        names = ("resent", "acked", "received", "sent", "busy")
        found = {name: now - then for name, now, then in zip(names, self.counters, before.counters)}
        return {"local": self.key[0], "peer": self.key[1], "rtt": self.rtt, "min_rtt": self.min_rtt, **found}


class Links:
    """Asks the kernel. One instance may be used for the life of a process."""

    def __init__(self):
        self._works = True

    def read(self):
        """All established TCP connections in this process's network namespace, as a list of Link; empty if the kernel refuses."""
        if not self._works:
            return []
        try:
            return [link for family in (socket.AF_INET, socket.AF_INET6) for link in _dump(family)]
        except (OSError, struct.error):
            self._works = False
            return []


def sockets_of(pid):
    """The inodes of the sockets of a process; OSError if the process has ended."""
    folder = f"/proc/{pid}/fd"
    found = set()
    for number in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{number}")
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def _dump(family):
    request = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 1 << _ESTABLISHED)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(_LIMIT)
        asked.send(_HEAD.pack(_HEAD.size + len(request), _SOCK_DIAG_BY_FAMILY, _DUMP, 1, 0) + request)
        while True:
            answer = asked.recv(1 << 17)
            at = 0
            while at + _HEAD.size <= len(answer):
                length, kind, _, _, _ = _HEAD.unpack_from(answer, at)
                if kind == _DONE:
                    return
                if kind == _ERROR or length < _HEAD.size:
                    raise OSError("the kernel does not tell of TCP connections")
                link = link_of(answer[at + _HEAD.size : at + length])
                if link is not None:
                    yield link
                at += (length + 3) & ~3


def link_of(message):
    """The Link that an inet_diag_msg with its attributes tells of; None if it has no counters."""
    if len(message) < _MESSAGE:
        return None
    family, local_port, peer_port = struct.unpack_from("=B", message)[0], *struct.unpack_from("!HH", message, 4)
    size = 4 if family == socket.AF_INET else 16
    ends = [socket.inet_ntop(family, message[start : start + size]).replace("::ffff:", "") for start in (8, 24)]
    inode = struct.unpack_from("=I", message, 68)[0]
    at = _MESSAGE
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _INFO and length - 4 >= _TCP_INFO.size:
            rtt, resent, acked, received, min_rtt, sent, busy = _TCP_INFO.unpack_from(message, at + 4)
            key = (f"{ends[0]}:{local_port}", f"{ends[1]}:{peer_port}")
            return Link(key, inode, (resent, acked, received, sent, busy * 1000), rtt * 1000, min_rtt * 1000)
        if length < 4:
            return None
        at += (length + 3) & ~3
    return None
