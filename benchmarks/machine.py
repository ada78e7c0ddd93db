# SPDX-License-Identifier: Apache-2.0
"""What must be known of a machine to read a benchmark's numbers."""
from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path


def facts() -> dict:
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": _first(r"model name\s*:\s*(.*)", _read("/proc/cpuinfo")) or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "vectors": [flag for flag in ("avx2", "avx512f", "avx512_bf16") if f" {flag} " in _read("/proc/cpuinfo")],
        "caches": _caches(),
        "memory_mb": int(_first(r"MemTotal:\s*(\d+)", _read("/proc/meminfo")) or 0) // 1024,
        "kernel": platform.release(),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled").strip(),
        "virtual": "hypervisor" in _read("/proc/cpuinfo"),
        "open_mpi": _first(r"(\d[\d.]*)", _output(["mpirun", "--version"])),
        "torch": _version("torch"),
        "commit": _output(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]).strip(),
    }


def line(machine: dict) -> str:
    """The facts in one line."""
    caches = " ".join(f"{name} {size}" for name, size in machine["caches"].items())
    kind = "virtual machine" if machine["virtual"] else "machine"
    return (
        f"{machine['cpu']}, {machine['cores']} cores ({kind}), {' '.join(machine['vectors']) or 'no AVX2'}, {caches}, "
        f"{machine['memory_mb']:,} MB, Linux {machine['kernel']}, Open MPI {machine['open_mpi'] or 'absent'}, "
        f"torch {machine['torch'] or 'absent'}, commit {machine['commit'] or 'unknown'}, {machine['time']}"
    )


def _caches() -> dict[str, str]:
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _read(index / "type").strip() != "Instruction":
            found["L" + _read(index / "level").strip()] = _read(index / "size").strip()
    return found


def _read(path: os.PathLike | str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1) if match else ""


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
