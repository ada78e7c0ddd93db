# SPDX-License-Identifier: Apache-2.0
"""Network interfaces of this machine, and the port where the ranks of a job meet. Standard library only, see frames.py."""

import ctypes
import os
import socket

_UP, _LOOPBACK = 0x1, 0x8


class InterfaceError(Exception):
    """The wanted interfaces cannot be used; the text says why and names those that exist."""


class _Entry(ctypes.Structure):
    pass


_Entry._fields_ = [
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
    ("netmask", ctypes.c_void_p),
    ("other", ctypes.c_void_p),
    ("data", ctypes.c_void_p),
]


def every_address():
    """[(interface, address, is loopback)] of the interfaces that are up."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Entry)()
    if libc.getifaddrs(ctypes.byref(first)) != 0:
        raise OSError(ctypes.get_errno(), "list of network interfaces")
    found, entry = [], first
    try:
        while entry:
            one = entry.contents
            text = _address(one.address) if one.address and one.flags & _UP else None
            if text:
                found.append((one.name.decode(), text, bool(one.flags & _LOOPBACK)))
            entry = one.next
    finally:
        libc.freeifaddrs(first)
    return found


def addresses(wanted=None):
    """Addresses that other hosts can connect to, of all interfaces or of those in `wanted`; bridges for containers last."""
    every = every_address()
    existing = list(dict.fromkeys(name for name, _, _ in every))
    listed = "there are " + (", ".join(existing) or "none that are up")
    if wanted and not set(wanted) & set(existing):
        word = "interface" if len(wanted) == 1 else "interfaces"
        raise InterfaceError(f"network {word} {', '.join(wanted)}: not found; {listed}")
    usable = [(name, text) for name, text, loopback in every
              if not loopback and not _is_link_local(text) and (not wanted or name in wanted)]
    if not usable:
        of = f"network interfaces {', '.join(wanted)}: " if wanted else ""
        raise InterfaceError(f"{of}no address that another host can connect to; {listed}")
    return [text for _, text in sorted(usable, key=lambda item: os.path.isdir(f"/sys/class/net/{item[0]}/bridge"))]


def check(wanted):
    """Raises InterfaceError if none of the wanted interfaces exists here."""
    existing = list(dict.fromkeys(name for name, _, _ in every_address()))
    if not set(wanted) & set(existing):
        addresses(wanted)


def reserve_port():
    """A socket bound to a free port of all addresses, and not listening: it keeps the port for rank 0, which will."""
    for family, everywhere in ((socket.AF_INET6, "::"), (socket.AF_INET, "")):
        try:
            reserved = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # the kernel does not know this family
        try:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            reserved.bind((everywhere, 0))
            return reserved
        except OSError:
            reserved.close()
    raise OSError("no TCP port can be reserved")


def _address(pointer):
    family = ctypes.c_ushort.from_address(pointer).value
    if family == socket.AF_INET:
        return socket.inet_ntop(family, ctypes.string_at(pointer + 4, 4))
    if family == socket.AF_INET6:
        return socket.inet_ntop(family, ctypes.string_at(pointer + 8, 16))
    return None


def _is_link_local(text):
    return text.startswith("169.254.") or text[:3] in ("fe8", "fe9", "fea", "feb") and ":" in text
