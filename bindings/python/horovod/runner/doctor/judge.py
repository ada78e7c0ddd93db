# SPDX-License-Identifier: Apache-2.0
"""What facts about one host mean for a job: facts in, findings out. judge_all.py judges several hosts."""

import re
from typing import List, NamedTuple, Optional

OK, WARNING, FAILED = "ok", "warning", "failed"
_MIB, _GIB = 1 << 20, 1 << 30
# What a job needs at least; generous guesses would fail hosts that work.
_FILES_OF_A_RANK, _FILES_FOR_A_PEER = 64, 2
_THREADS_OF_A_RANK, _MEMORY_OF_A_RANK = 32, 128 * _MIB
_SMALL_ADDRESS_SPACE = 16 * _GIB
_HEALTHY_OPEN_FILES = 1024
# Advice for faults of ssh that say only what happened.
_SSH_ADVICE = (
    (
        r"cannot be reached|did not answer|not answer any more",
        "see that {name} is up and that no firewall drops ssh between here and there: ssh {name} true",
    ),
    (r"name is not known", "correct the name, or write an address in its place"),
    (
        r"python .* or newer is needed",
        "install a newer python3 on {name}, or put it first in the PATH that ssh {name} gives",
    ),
    (r"its probe ended", "see what python says there: {name}"),
    (r"", "see what ssh itself says: ssh -v {name} true"),
)


class Finding(NamedTuple):
    """A line of the report. `host` is None for what concerns all; `advice` says what to do, None if all is ok."""

    check: str
    level: str
    host: Optional[str]
    fact: str
    advice: Optional[str] = None


def ssh(name: str, failure: Optional[str], seconds: Optional[float], said: str = "") -> Finding:
    """Whether the host was reached over ssh."""
    if failure is None:
        new = "Permanently added" in said
        key = "its key was new and is known now" if new else "host key known"
        return Finding("ssh", OK, name, f"no password needed, {key}, ready after {seconds:.2f} s")
    fact, _, advice = failure.partition("; ")
    if not advice:
        advice = next(text for pattern, text in _SSH_ADVICE if re.search(pattern, fact)).format(name=name)
    return Finding("ssh", FAILED, name, fact, advice)


def software(name: str, facts: dict) -> List[Finding]:
    """horovod and libhvd as a rank would find them."""
    view = facts["rank"]
    if "problem" in view:
        return [
            Finding("software", FAILED, name, view["problem"], f"run there: {facts['executable']} -c 'import horovod'")
        ]
    horovod, library = view["horovod"], view["libhvd"]
    if horovod["problem"]:
        where = f"{horovod['path']}: " if horovod["path"] else ""
        advice = (
            f"reinstall it there, in a clone of this project: {facts['executable']} -m pip install --force-reinstall ."
            if horovod["path"]
            else f"install it there as here, in a clone of this project: {facts['executable']} -m pip install ."
        )
        return [Finding("software", FAILED, name, f"horovod: {where}{horovod['problem']}", advice)]
    found = [Finding("software", OK, name, f"horovod {horovod['version']} in {horovod['path']}")]
    if library["problem"]:
        found.append(
            Finding(
                "software",
                FAILED,
                name,
                library["problem"],
                "reinstall horovod there, or let HVD_LIBRARY name a libhvd.so.1 that loads",
            )
        )
    else:
        found.append(
            Finding("software", OK, name, f"libhvd {library['version']}, ABI {library['abi']}, {library['path']}")
        )
    if not facts["cwd"]:
        found.append(
            Finding(
                "software",
                WARNING,
                name,
                "does not have the current folder; ranks start in the home folder there",
                "start from a folder that all hosts have, or give programs by absolute paths",
            )
        )
    return found


def limits(name: str, facts: dict, slots: int, size: int) -> List[Finding]:
    """Open files, processes, memory and address space against what `slots` ranks of a job of `size` need."""
    if not slots:
        return []
    return [
        _open_files(name, facts["limits"]["open_files"], slots, size),
        *_processes(name, facts, slots),
        _address_space(name, facts["limits"]["address_space"]),
        _memory(name, facts, slots),
        Finding("limits", OK, name, f"locked memory {size_text(facts['limits']['locked_memory']['soft'])}"),
        _cores(name, facts, slots),
    ]


def _open_files(name: str, limit: dict, slots: int, size: int) -> Finding:
    need = _FILES_OF_A_RANK + _FILES_FOR_A_PEER * size
    fact = f"open files {_count(limit['soft'])} (hard limit {_count(limit['hard'])})"
    if limit["hard"] is not None and limit["hard"] < need:
        return Finding(
            "limits",
            FAILED,
            name,
            f"{fact}; a rank of this job needs {need}",
            f"raise the hard limit there (nofile in /etc/security/limits.conf) to {need} or more",
        )
    if limit["soft"] is not None and limit["soft"] < max(need, _HEALTHY_OPEN_FILES):
        return Finding(
            "limits", WARNING, name, f"{fact} is small", f"raise it there: ulimit -n {max(need, _HEALTHY_OPEN_FILES)}"
        )
    return Finding("limits", OK, name, fact)


def _processes(name: str, facts: dict, slots: int) -> List[Finding]:
    need, group = _THREADS_OF_A_RANK * slots, facts["cgroup"]
    limit = facts["limits"]["processes"]["soft"]
    found = []
    # The limit of a user counts all its processes, and not those of root; that of the control group is exact.
    if limit is not None and facts["user"] != 0 and limit < need + 64:
        found.append(
            Finding(
                "limits",
                WARNING,
                name,
                f"a user may have {limit} processes and threads; {slots} ranks have about {need}",
                f"raise it there: ulimit -u {4 * (need + 64)}",
            )
        )
    else:
        found.append(Finding("limits", OK, name, f"processes and threads {_count(limit)}"))
    if group["processes_limit"] is not None:
        left = group["processes_limit"] - group["processes_used"]
        fact = f"control group: {left} more of {group['processes_limit']} processes and threads"
        found.append(
            Finding("limits", OK, name, fact)
            if left >= need
            else Finding(
                "limits",
                FAILED,
                name,
                f"{fact}; {slots} ranks have about {need}",
                "raise the number of tasks of the container or service (pids.max)",
            )
        )
    return found


def _address_space(name: str, limit: dict) -> Finding:
    soft = limit["soft"]
    if soft is not None and soft < _SMALL_ADDRESS_SPACE:
        return Finding(
            "limits",
            WARNING,
            name,
            f"address space {size_text(soft)}; frameworks map more than they use",
            "lift it there: ulimit -v unlimited",
        )
    return Finding("limits", OK, name, f"address space {size_text(soft)}")


def _memory(name: str, facts: dict, slots: int) -> Finding:
    memory, group = facts["memory"], facts["cgroup"]
    available = memory.get("available", 0)
    fact = f"memory {size_text(available)} available of {size_text(memory.get('total', 0))}"
    advice = f"start fewer ranks there than {slots}, or end other programs"
    if group["memory_limit"] is not None:
        left = max(0, group["memory_limit"] - group["memory_used"])
        fact += f", control group: {size_text(left)} left of {size_text(group['memory_limit'])}"
        if left < available:
            available, advice = left, "raise the memory limit of the container or service, or start fewer ranks there"
    if available < _MEMORY_OF_A_RANK * slots:
        return Finding("limits", WARNING, name, f"{fact}; that is little for {slots} ranks", advice)
    return Finding("limits", OK, name, fact)


def _cores(name: str, facts: dict, slots: int) -> Finding:
    quota = facts["cgroup"]["cores"]
    cores = facts["cores"] if quota is None else min(facts["cores"], quota)
    fact = f"{cores:g} cores" + (f" of {facts['cores_of_machine']}" if cores != facts["cores_of_machine"] else "")
    fact += f", load {facts['load']:.1f}" + (f", in {facts['container']}" if facts["container"] else "")
    if slots > cores:
        return Finding(
            "limits",
            WARNING,
            name,
            f"{fact}; {slots} ranks share them",
            f"give the host at most {max(1, int(cores))} slots",
        )
    if facts["load"] > facts["cores_of_machine"] + 1:
        return Finding("limits", WARNING, name, f"{fact}; other programs use it", "see with top what runs there")
    return Finding("limits", OK, name, fact)


def shared_memory(name: str, facts: dict) -> Finding:
    """Ranks of one host meet in memory of memfd_create; the size of /dev/shm does not matter to them."""
    found = facts["shared_memory"]
    size = (
        f"/dev/shm {size_text(found['dev_shm'])}, not used"
        if found["dev_shm"] is not None
        else "no /dev/shm, not needed"
    )
    if found["memfd"] is None:
        return Finding("shared memory", OK, name, f"memfd_create works ({size})")
    return Finding(
        "shared memory",
        FAILED,
        name,
        f"memfd_create: {found['memfd']}",
        "allow the system call memfd_create in the container's seccomp profile",
    )


def names(name: str, facts: dict) -> Finding:
    """What the host's own name means there; of no importance to jobs, but to other programs."""
    own, hostname = facts["own_name"], facts["hostname"]
    if isinstance(own, str):
        return Finding("names", OK, name, f"its own name {hostname} is not known there; jobs do not need it")
    if any(address.startswith("127.") or address == "::1" for address in own):
        return Finding(
            "names", OK, name, f"its own name {hostname} means {', '.join(own)} there; horovodrun does not use it"
        )
    return Finding("names", OK, name, f"its own name {hostname} means {', '.join(own)}")


def clock(name: str, measured: Optional[dict]) -> Optional[Finding]:
    """The offset from this machine's clock."""
    if measured is None:
        return None
    offset, uncertainty = measured["offset"], measured["uncertainty"]
    fact = f"{offset:+.3f} s against this machine, known to {_seconds(uncertainty)}"
    if abs(offset) - uncertainty > 1.0:
        return Finding(
            "clock",
            WARNING,
            name,
            f"{fact}; only times in logs suffer",
            "let the host follow a time server: chrony or ntpd",
        )
    return Finding("clock", OK, name, fact)


def addresses(name: str, facts: dict) -> List[Finding]:
    """The addresses at which others can reach the host."""
    if facts["addresses_problem"]:
        return [
            Finding(
                "addresses",
                FAILED,
                name,
                facts["addresses_problem"],
                "name an interface that the host has and that has an address: --network-interfaces",
            )
        ]
    by_address = {entry["address"]: entry["interface"] for entry in facts["interfaces"]}
    listed = ", ".join(f"{address} ({by_address.get(address, '?')})" for address in facts["addresses"])
    return [Finding("addresses", OK, name, listed)]


def libraries(name: str, facts: dict, operations: str) -> List[Finding]:
    """MPI, Gloo, NCCL and CUDA as ranks would get them. Only what the environment asks for can fail."""
    view = facts["rank"]
    if "problem" in view:
        return []
    found = [_plugin(name, kind, view[kind], operations) for kind in ("mpi", "gloo")]
    nccl, cuda = view["nccl"], view["cuda"]
    unused = "" if nccl["used"] else "; this libhvd does not use it"
    found.append(
        Finding(
            "libraries",
            OK,
            name,
            f"NCCL {nccl['version']}, {nccl['origin']}, {nccl['path']}{unused}"
            if nccl["path"]
            else f"NCCL: none (no wheel nvidia-nccl; {nccl['problem']})",
        )
    )
    driver = f", driver {cuda['driver']}" if cuda["driver"] else ""
    found.append(
        Finding(
            "libraries",
            OK,
            name,
            f"CUDA {cuda['version']}{driver}, {cuda['path']}"
            if cuda["path"]
            else f"CUDA: no driver ({cuda['problem']})",
        )
    )
    return found


def _plugin(name: str, kind: str, facts: dict, operations: str) -> Finding:
    title = {"mpi": "MPI", "gloo": "Gloo"}[kind]
    parts = [facts["plugin"] if facts["usable"] else f"not usable: {facts['problem']}"]
    if facts["library"]:
        parts.append("library: " + ", ".join(filter(None, (facts.get("version"), facts["library"]))))
    elif facts.get("library_problem"):
        parts.append(f"library: {facts['library_problem']}")
    fact = f"{title}: {'; '.join(parts)}"
    if operations == kind and not facts["usable"]:
        fact += f"; HOROVOD_CPU_OPERATIONS={kind} asks for it"
        advice = "unset HOROVOD_CPU_OPERATIONS, or install a horovod with this plug-in there"
        return Finding("libraries", FAILED, name, fact, advice)
    return Finding("libraries", OK, name, fact)


def _count(value: Optional[int]) -> str:
    return "unlimited" if value is None else str(value)


def size_text(value: Optional[float]) -> str:
    if value is None:
        return "unlimited"
    for unit, size in (("TiB", 1 << 40), ("GiB", _GIB), ("MiB", _MIB), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 1000 * size else f"{value / size:.0f} {unit}"
    return f"{value:.0f} bytes"


def _seconds(value: float) -> str:
    return f"{value * 1e6:.0f} us" if value < 1e-3 else f"{value * 1e3:.1f} ms"
