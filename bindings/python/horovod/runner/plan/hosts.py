# SPDX-License-Identifier: Apache-2.0
"""Hosts and ranks: reads host lists and hostfiles, says which hosts are this machine, and gives every rank its place."""

import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

# A name, or an IPv6 address in brackets; then perhaps the number of slots. A name that begins with a hyphen would be an option to
# ssh.
_ENTRY = re.compile(r"(?:(\w[\w.-]*)|\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\])(?::(\d+))?", re.ASCII)
_WITH_USER = re.compile(r"(\w[\w.-]*)@(\w[\w.-]*)(?::\d+)?", re.ASCII)
# Open MPI's max-slots says how far a host may be filled beyond its slots, which is never done here.
_LINE = re.compile(r"(\S+)(?:\s+slots\s*=\s*(\d+))?(?:\s+max[-_]slots\s*=\s*\d+)?", re.ASCII)
_MOST_SLOTS = 1 << 20  # of all hosts together: as many ranks as a job can have
_MOST_DISCOVERED = 4096  # hosts that a discovery script may list: more are a mistake
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}|::1")


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
    """Reads `a:2,b:4,[fd00::1]:2`; a host without a number has one slot, a host named twice has the sum of both."""
    return _sum((entry, f"hosts {_quoted(text)}: entry {_quoted(entry)}") for entry in text.split(","))


def read_hostfile(path: str) -> List[Host]:
    """Reads lines `host slots=4` or `host:4`; # begins a comment, empty lines do not count."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HostError(f"hostfile {path}: {getattr(error, 'strerror', None) or 'is no text'}") from None
    entries = []
    for number, line in enumerate(lines, 1):
        line = line.partition("#")[0].strip()
        if line:
            where = f"hostfile {path}, line {number}: {_quoted(line)}"
            match = _LINE.fullmatch(line)
            if not match:
                raise HostError(f"{where} is not host, host:number or host slots=number")
            name, slots = match.groups()
            if slots is not None and _has_number(name):
                raise HostError(f"{where} gives the number of slots twice")
            entries.append((name if slots is None else f"{name}:{slots}", where))
    if not entries:
        raise HostError(f"hostfile {path}: names no host")
    return _sum(entries)


def parse_discovered(text: str, slots: Optional[int] = None) -> List[Host]:
    """Reads what a discovery script prints: lines `host:4`, or `host` with so many slots; empty lines do not count.

    A host that is named twice is a mistake here: a script that has a host's slots in two places would have said one number.
    """
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line:
            entries.append((line if slots is None or _has_number(line) else f"{line}:{slots}", f"line {number}: {_quoted(line)}"))
    if len(entries) > _MOST_DISCOVERED:
        raise HostError(f"{len(entries)} hosts; at most {_MOST_DISCOVERED} are taken for meant")
    listed = _sum(entries)
    if len(listed) < len(entries):
        names = [_ENTRY.fullmatch(entry).group(1, 2) for entry, _ in entries]
        again = next(name or address for name, address in names if names.count((name, address)) > 1)
        raise HostError(f"host {again} is listed twice")
    return listed


def _quoted(text: str) -> str:
    """For a message of one line, whatever is in it, and not longer than people read."""
    shown = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text[:200])
    return f'"{shown}{"…" if len(text) > 200 else ""}"'


def _has_number(entry: str) -> bool:
    match = _ENTRY.fullmatch(entry)
    return bool(match and match.group(3))


def _sum(entries: Iterable[Tuple[str, str]]) -> List[Host]:
    slots: Dict[str, int] = {}
    for entry, where in entries:
        match = _ENTRY.fullmatch(entry.strip())
        if not match:
            raise HostError(f"{where} is not name or name:slots{_advice(entry)}")
        name, digits = match.group(1) or match.group(2), match.group(3) or "1"
        count = int(digits[:20])
        if count < 1:
            raise HostError(f"{where} has {count} slots; at least 1 is needed")
        slots[name] = slots.get(name, 0) + count
        if sum(slots.values()) > _MOST_SLOTS:
            raise HostError(f"{where} brings the slots of all hosts to {sum(slots.values())}; allowed: {_MOST_SLOTS}")
    return [Host(name, count) for name, count in slots.items()]


def _advice(entry: str) -> str:
    found = _WITH_USER.fullmatch(entry.strip())
    if found:
        user, host = found.groups()
        return f'; the user of a host stands in ~/.ssh/config, as in "Host {host}" and "User {user}", or for all in HOROVOD_SSH_ARGS="-l {user}"'
    return "; an IPv6 address stands in brackets, as in [fd00::1]:4" if entry.count(":") > 1 else ""


def write_hosts(hosts: Iterable[Host]) -> str:
    """What parse_hosts reads."""
    return ",".join(f"[{host.name}]:{host.slots}" if ":" in host.name else f"{host.name}:{host.slots}" for host in hosts)


def is_local(name: str) -> bool:
    """True for localhost, 127.x.y.z, ::1, this machine's name, and names or addresses of its own interfaces."""
    if name == "localhost" or _LOOPBACK.fullmatch(name):
        return True
    import socket  # only hosts that are not obviously local need it

    if name in (socket.gethostname(), socket.gethostname().split(".")[0]):
        return True
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, _, _, address in found:
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(address)  # only an address of this machine can be bound
            return True
        except OSError:
            continue
    return False


def assign(hosts: List[Host], num_proc: Optional[int] = None) -> List[Place]:
    """Ranks fill the hosts in the given order; without a number every slot becomes a rank."""
    available = sum(host.slots for host in hosts)
    size = available if num_proc is None else num_proc
    if size > available:
        raise HostError(f"{size} processes asked for, but the hosts {write_hosts(hosts)} have {available} slots")
    used = []
    left = size
    for host in hosts:
        count = min(host.slots, left)
        if count:
            used.append(Host(host.name, count))
        left -= count
    # How many hosts have a rank with this local rank, and how many of them have been met.
    most = max((host.slots for host in used), default=0)
    cross_size = [sum(host.slots > local for host in used) for local in range(most)]
    met = [0] * len(cross_size)
    places: List[Place] = []
    for host in used:
        for local in range(host.slots):
            places.append(Place(len(places), size, local, host.slots, met[local], cross_size[local], host.name))
            met[local] += 1
    return places
