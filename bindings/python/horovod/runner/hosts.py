# SPDX-License-Identifier: Apache-2.0
"""Hosts and ranks: reads `-H`, says which hosts are this machine, and gives every rank its place."""

import re
from typing import List, NamedTuple, Optional

_ENTRY = re.compile(r"([\w.-]+)(?::(\d+))?")
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}")


class HostError(ValueError):
    """The host list cannot be used; the text says which entry and why."""


class Host(NamedTuple):
    """A name and the number of ranks that may run there."""

    name: str
    slots: int


class Place(NamedTuple):
    """Where one rank runs and its numbers there."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    host: str


def parse_hosts(text: str) -> List[Host]:
    """Reads `a:2,b:4`; a host without a number has one slot, a host named twice has the sum of both."""
    slots = {}
    for entry in text.split(","):
        match = _ENTRY.fullmatch(entry.strip())
        if not match:
            raise HostError(f'hosts "{text}": entry "{entry}" is not name or name:slots')
        count = int(match.group(2) or 1)
        if count < 1:
            raise HostError(f'hosts "{text}": entry "{entry}" has {count} slots; at least 1 is needed')
        slots[match.group(1)] = slots.get(match.group(1), 0) + count
    return [Host(name, count) for name, count in slots.items()]


def is_local(name: str) -> bool:
    """True for localhost, 127.x.y.z, this machine's name, and names or addresses of its own interfaces."""
    if name == "localhost" or _LOOPBACK.fullmatch(name):
        return True
    import socket  # only hosts that are not obviously local need it

    if name in (socket.gethostname(), socket.gethostname().split(".")[0]):
        return True
    try:
        address = socket.gethostbyname(name)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))  # only an address of this machine can be bound
        return True
    except OSError:
        return False


def check_local(hosts: List[Host]) -> None:
    """Refuses hosts that are another machine."""
    for host in hosts:
        if not is_local(host.name):
            import socket

            raise HostError(
                f'host "{host.name}": is not this machine; this version starts processes on this machine only '
                f"(localhost, {socket.gethostname()}, or 127.x.y.z to act as several hosts)"
            )


def assign(hosts: List[Host], num_proc: Optional[int] = None) -> List[Place]:
    """Ranks fill the hosts in the given order; without a number every slot becomes a rank."""
    available = sum(host.slots for host in hosts)
    size = available if num_proc is None else num_proc
    if size > available:
        listed = ",".join(f"{host.name}:{host.slots}" for host in hosts)
        raise HostError(f"{size} processes asked for, but the hosts {listed} have {available} slots")
    used = []
    left = size
    for host in hosts:
        count = min(host.slots, left)
        if count:
            used.append(Host(host.name, count))
        left -= count
    places: List[Place] = []
    for host in used:
        for local_rank in range(host.slots):
            peers = [other.name for other in used if other.slots > local_rank]
            places.append(
                Place(len(places), size, local_rank, host.slots, peers.index(host.name), len(peers), host.name)
            )
    return places
