# SPDX-License-Identifier: Apache-2.0
"""Facts about this host for `horovodrun doctor`: versions, limits, memory, names, addresses. Standard library only.

Nothing is judged here (see ../judge.py), and a fact that cannot be found is None or a text that says why.
"""

import mmap
import os
import platform
import resource
import socket
import sys

import interfaces

_LIMITS = (
    ("open_files", resource.RLIMIT_NOFILE),
    ("processes", resource.RLIMIT_NPROC),
    ("locked_memory", resource.RLIMIT_MEMLOCK),
    ("address_space", resource.RLIMIT_AS),
)
_CGROUP = "/sys/fs/cgroup"


def collect(wanted_interfaces):
    """Everything that is the same for every program of this user on this host."""
    return {
        "hostname": socket.gethostname(),
        "user": os.getuid(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "glibc": _glibc(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "cores": len(os.sched_getaffinity(0)),
        "cores_of_machine": os.cpu_count(),
        "load": os.getloadavg()[0],
        "memory": _memory(),
        "limits": _limits(),
        "cgroup": cgroup(),
        "container": _container(),
        "shared_memory": _shared_memory(),
        "own_name": _addresses_of(socket.gethostname()),
        **_network(wanted_interfaces),
    }


def _glibc():
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").replace("glibc ", "") or None
    except (ValueError, OSError):
        return None  # another C library


def _memory():
    found = {}
    for line in (read("/proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            found["total" if name == "MemTotal" else "available"] = int(rest.split()[0]) * 1024
    return found


def _limits():
    def number(value):
        return None if value == resource.RLIM_INFINITY else value

    return {
        name: {"soft": number(soft), "hard": number(hard)}
        for name, (soft, hard) in ((name, resource.getrlimit(kind)) for name, kind in _LIMITS)
    }


def cgroup(base=_CGROUP, own=None):
    """The tightest limits of the control groups that this process is in (version 2, or the memory of version 1)."""
    found = {"memory_limit": None, "memory_used": None, "processes_limit": None, "processes_used": None, "cores": None}
    lines = (read("/proc/self/cgroup") or "" if own is None else own).splitlines()
    for line in lines:
        _, names, path = line.split(":", 2)
        if names == "":
            for folder in _up(base, path):
                _tighten(found, "memory", folder, "memory.max", "memory.current")
                _tighten(found, "processes", folder, "pids.max", "pids.current")
                quota = (read(f"{folder}/cpu.max") or "").split()
                if len(quota) == 2 and quota[0] != "max":
                    cores = int(quota[0]) / int(quota[1])
                    found["cores"] = cores if found["cores"] is None else min(cores, found["cores"])
        elif "memory" in names.split(","):
            for folder in _up(base + "/memory", path):
                _tighten(found, "memory", folder, "memory.limit_in_bytes", "memory.usage_in_bytes")
    return found


def _up(base, path):
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return ["/".join([base, *parts[:count]]) for count in range(len(parts), -1, -1)]


def _tighten(found, name, folder, limit_file, used_file):
    text = (read(f"{folder}/{limit_file}") or "").strip()
    if not text.isdigit() or int(text) >= 1 << 60:
        return
    limit, used = int(text), int((read(f"{folder}/{used_file}") or "0").strip() or 0)
    before = found[f"{name}_limit"]
    if before is None or limit - used < before - found[f"{name}_used"]:
        found[f"{name}_limit"], found[f"{name}_used"] = limit, used


def _container():
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/singularity", "singularity")):
        if os.path.exists(path):
            return name
    for variable in ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "KUBERNETES_SERVICE_HOST", "container"):
        if os.environ.get(variable):
            return variable.lower().partition("_")[0]
    return None


def _shared_memory():
    found = {"memfd": None, "dev_shm": None}
    try:
        descriptor = os.memfd_create("hvd-doctor", getattr(os, "MFD_CLOEXEC", 0))
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            with mmap.mmap(descriptor, mmap.PAGESIZE) as memory:
                memory[0] = 1
        finally:
            os.close(descriptor)
    except (OSError, AttributeError) as error:
        found["memfd"] = str(error)
    try:
        status = os.statvfs("/dev/shm")
        found["dev_shm"] = status.f_frsize * status.f_blocks
    except OSError:
        pass  # there is none
    return found


def _addresses_of(name):
    try:
        return sorted({entry[4][0] for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})
    except (OSError, UnicodeError) as error:
        return str(error)


def _network(wanted):
    every = [
        {
            "interface": name,
            "address": address,
            "loopback": loopback,
            "bridge": os.path.isdir(f"/sys/class/net/{name}/bridge"),
            "mtu": _number(f"/sys/class/net/{name}/mtu"),
            "megabits": _number(f"/sys/class/net/{name}/speed"),
        }
        for name, address, loopback in interfaces.every_address()
    ]
    found = {"interfaces": every, "addresses": [], "addresses_problem": None}
    try:
        if wanted:
            interfaces.check(wanted)
        found["addresses"] = interfaces.addresses(wanted)
    except interfaces.InterfaceError as error:
        found["addresses_problem"] = str(error)
    return found


def _number(path):
    text = (read(path) or "").strip()
    return int(text) if text.isdigit() else None


def read(path):
    """The text of a small file, or None."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
