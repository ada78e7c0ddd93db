# SPDX-License-Identifier: Apache-2.0
"""Room on the disk: all suites together need more than some machines have free, and each needs its environment and build once."""

import shutil
from pathlib import Path
from typing import Dict, List

from suites.count import ROOT

# With so much free nothing is removed: later runs go faster by what earlier ones left.
ENOUGH = 10 << 30

# The largest environment while it is installed, and what running suites write meanwhile.
_AHEAD = 6e9

# What a whole run from nothing has at once where room is short, beside PyTorch, which is there before the first suite.
_ALL_SUITES = 7e9

# What no suite after this one, in the order of a whole run, looks into, beside the environments of frameworks.
_LEFT_BY: Dict[str, List[Path]] = {
    "spark": [ROOT / "build-spark"],
    "languages": [ROOT / "build-julia", ROOT / "build-jvm"],
    "fuzz": [ROOT / "build-fuzz"],
    "asan": [ROOT / "build-asan"],
}


def free() -> int:
    """Bytes."""
    return shutil.disk_usage(ROOT).free


def say_room() -> None:
    """Before a whole run: says so if it may end for want of disk."""
    if free() < _ALL_SUITES:
        print(f"   {free() / 1e9:.1f} GB of disk are free; all suites from nothing take {_ALL_SUITES / 1e9:.0f}", flush=True)


def ahead_fits() -> bool:
    """Whether something may be made that only a later suite needs."""
    return free() >= _AHEAD


def leave(folder: Path) -> None:
    """When no suite needs a folder any more: removes it if the disk is nearly full, and says so."""
    room = free()
    if room < ENOUGH and folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"   removed {folder.relative_to(ROOT)}: only {room / 1e9:.1f} GB of disk were free", flush=True)


def make_room(suite: str) -> None:
    """After a suite: removes what it leaves if the disk is nearly full."""
    for folder in _LEFT_BY.get(suite, []):
        leave(folder)
